import pytest

from carryon import config
from carryon.config import DataConfig, FormatConfig, choices, load, override
from carryon.data import FORMS
from carryon.errors import BadConfig
from carryon.formats import FORMATS
from carryon.operations import OPERATIONS
from carryon.recipes import load_recipe
from carryon.sampling import SAMPLERS
from carryon.tokenizers import TOKENIZERS


@pytest.mark.parametrize(
    ("names", "registry"),
    [
        (config.OperationName, OPERATIONS),
        (config.FormatName, FORMATS),
        (config.SamplerName, SAMPLERS),
        (config.TokenizerName, TOKENIZERS),
        (config.FormName, FORMS),
    ],
)
def test_the_names_a_config_may_use_are_the_registered_ones(names, registry):
    assert set(choices(names)) == set(registry)


def test_all_errors_are_reported_at_once_with_a_guess():
    with pytest.raises(BadConfig) as error:
        load(DataConfig, {"operation": "ad", "format": "revers", "digit": 3, "num_examples": 0})
    message = str(error.value)
    for part in ("did you mean 'add'", "did you mean 'reverse'", "did you mean 'digits'", "num_examples", "not 0"):
        assert part in message
    assert "\n" not in message


def test_a_format_may_be_given_by_name():
    assert load(DataConfig, {"format": "plain"}).format == FormatConfig(name="plain")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"operation": "sine", "base": 2}, "base 10 only"),
        ({"operation": "sine", "exclude": {"numbers": 3}}, "integer operations"),
        ({"table": 20}, "sampler revealed"),
        ({"sampler": "revealed"}, "table"),
        ({"digits": 5, "format": {"name": "plain_padded"}}, "set it to 5"),
        ({"base": 2, "exclude": {"digit": 5, "position": 1}}, "not a digit of base 2"),
        ({"exclude": {"digit": 5}}, "go together"),
        ({"exclude": {"digit": 5, "position": 4}}, "beyond 3-digit"),
        ({"format": {"name": "plain", "noise": "A"}}, "simplified_scratchpad only"),
        ({"format": {"name": "hosted_plain", "spaces": True}}, "leave both"),
        ({"format": {"name": "plain", "stop": "7"}}, "part of an answer"),
        ({"format": {"name": "plain", "stop": ""}}, "format.stop"),
        ({"num_examples": "many"}, "not 'many'"),
        ({"format": {"name": "plain", "widht": 4}}, "did you mean 'width'"),
        ({"digits": 10**6}, "digits"),
        ({"operands": 1}, "operands"),
        ({"operands": 101}, "operands"),
        ({"operands": 3, "operation": "multiply"}, "operands 3 exist for add only, not for multiply"),
        (
            {"operands": 3, "sampler": "balanced"},
            "balanced draws 2 operands, not 3: use equal_operands, uniform, full_length or both_full_length",
        ),
        ({"operands": 3, "test_sampler": "equal_lengths"}, "equal_lengths draws 2 operands, not 3"),
        ({"operands": 3, "table": 20, "sampler": "revealed"}, "revealed draws 2 operands, not 3"),
        ({"operands": 3, "exclude": {"lengths": (2,)}}, "exclusions exist for 2 operands only, not for 3"),
        ({"sampler": "equal_operands"}, "equal_operands is for sums of more than 2 numbers"),
    ],
)
def test_what_does_not_fit_together_is_refused(values, says):
    with pytest.raises(BadConfig, match=says):
        load(DataConfig, values)


def test_configs_are_frozen_and_round_trip():
    made = load(DataConfig, {"format": {"name": "simplified_scratchpad", "noise": "both"}, "exclude": {"lengths": [2]}})
    assert DataConfig.model_validate_json(made.model_dump_json()) == made
    assert hash(made) == hash(made.model_copy())
    with pytest.raises(ValueError, match="frozen"):
        made.digits = 4


def test_a_setting_without_a_value_goes_back_to_its_default():
    values = {"model": {"reach": 1, "width": 64}, "seed": 3}
    assert override(values, ["model.reach=", "seed= ", "train.steps="]) == {"model": {"width": 64}, "train": {}}
    assert values["model"]["reach"] == 1
    assert override({"name": "a"}, ['name=""']) == {"name": ""}
    assert load_recipe("longer", ["model.reach="]).model.reach is None
