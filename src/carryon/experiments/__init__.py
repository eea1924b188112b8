"""The paper's figures and tables, one file each, named by the question they answer."""

from ..errors import UnknownName
from .base import SEEDS, Case, Experiment, Question, Tier
from .bounds import NotEnough
from .claims import Claim
from .forgetting import Forgetting
from .format_switch import FormatSwitch
from .function_errors import FunctionErrors
from .index_hints import IndexHints
from .joint_tasks import JointTasks
from .lemmas import Lemmas
from .length_generalization import LengthGeneralization
from .longer_digits import LongerDigits
from .looped import Looped
from .matrix_completion import MatrixCompletion
from .matrix_completion_vs_model import MatrixCompletionVsModel
from .measured import Measured, matches
from .model_scale import ModelScale
from .multiplication_length import MultiplicationLength
from .needs import needs
from .noisy_prefix import NoisyPrefix
from .noisy_scratchpad import NoisyScratchpad
from .one_more_digit import OneMoreDigit
from .operand_count import OperandCount
from .other_operations import OtherOperations
from .plain_vs_reverse import PlainVsReverse
from .position_methods import PositionMethods
from .pretrained_finetuning import PretrainedFinetuning
from .prompt_start import PromptStart
from .sample_efficiency import SampleEfficiency
from .sampling import Sampling
from .self_improvement import SelfImprovement
from .subtraction_steps import SubtractionSteps
from .text_free_prompts import TextFreePrompts
from .text_mixture import TextMixture
from .token_cost import TokenCost
from .tokenization import Tokenization
from .unseen_digits import UnseenDigits
from .unseen_numbers import UnseenNumbers
from .wrapping import Wrapping

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Sampling(),
        PlainVsReverse(),
        SampleEfficiency(),
        TokenCost(),
        Wrapping(),
        PromptStart(),
        MatrixCompletion(),
        MatrixCompletionVsModel(),
        UnseenNumbers(),
        UnseenDigits(),
        SubtractionSteps(),
        NoisyScratchpad(),
        NoisyPrefix(),
        LongerDigits(),
        Forgetting(),
        OneMoreDigit(),
        FormatSwitch(),
        OtherOperations(),
        FunctionErrors(),
        JointTasks(),
        TextMixture(),
        TextFreePrompts(),
        ModelScale(),
        Tokenization(),
        PretrainedFinetuning(),
        LengthGeneralization(),
        PositionMethods(),
        IndexHints(),
        Looped(),
        OperandCount(),
        MultiplicationLength(),
        SelfImprovement(),
        Lemmas(),
    )
}


def experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


__all__ = [
    "EXPERIMENTS",
    "SEEDS",
    "Case",
    "Claim",
    "Experiment",
    "Measured",
    "NotEnough",
    "Question",
    "Tier",
    "experiment",
    "matches",
    "needs",
]
