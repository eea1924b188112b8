"""docs/results is what results/ says."""

from pathlib import Path
from statistics import mean

from carryon.experiments import EXPERIMENTS
from carryon.experiments.forgetting import RATES
from carryon.experiments.matrix_completion import half_way
from carryon.experiments.measured import Measured, Stat, number, share
from carryon.experiments.prompting import SAME, TEXT, after, few_shot
from carryon.experiments.showing import cell
from carryon.overview import make_chapter
from carryon.reports import Chapter, Figure, Point, Series, Table, TierPart
from carryon.reports.captions import captions
from carryon.reports.drawing import draw
from carryon.reports.markdown import write_chapter, write_overview
from carryon.results import Line, Store

ROOT = Path(__file__).parent.parent
STALE = "run: carryon report --format md"


def test_every_page_is_up_to_date():
    store = Store(ROOT / "results")
    chapters = [make_chapter(experiment, store) for experiment in EXPERIMENTS.values()]
    for chapter in chapters:
        placed = []

        def place(name, figure, placed=placed):
            placed.append(f"figures/{name}.svg")
            return placed[-1]

        page = write_chapter(chapter, place)
        assert (ROOT / "docs/results" / f"{chapter.name}.md").read_text(encoding="utf-8") == page, STALE
        for path in placed:
            assert (ROOT / "docs/results" / path).is_file(), STALE
    assert (ROOT / "docs/results/README.md").read_text(encoding="utf-8") == write_overview(chapters), STALE
    assert not store.broken
    (counted,) = [line for line in write_overview(chapters).splitlines() if line.startswith("Of ")]
    assert counted in (ROOT / "README.md").read_text(encoding="utf-8"), "README counts the claims"


def test_runs_of_a_protocol_that_was_changed_are_not_shown(tmp_path):
    wrapping = EXPERIMENTS["wrapping"]
    case = wrapping.cases("fast")[0].with_seed(0)
    question = case.questions[0].config.hash
    settings, metrics = dict(case.settings), {"accuracy": 0.5, "count": 10}
    now = Line(case.run.hash, question, {"a": 1}, settings, 0, metrics, 1.0, "cpu", "abc")
    before = Line("0123456789", question, {"a": 2}, settings, 0, metrics, 1.0, "cpu", "old")
    store = Store(tmp_path)
    store.add("fast", "wrapping", [before])
    chapter = make_chapter(wrapping, store)
    assert not chapter.parts
    left = len(wrapping.cases("fast")) * wrapping.seeds["fast"]
    assert chapter.missing.startswith(f"Not run yet: {left} of {left} runs, about ")
    assert chapter.missing in write_chapter(chapter, lambda name, figure: name)
    store.add("fast", "wrapping", [now])
    (part,) = make_chapter(wrapping, store).parts
    assert part.provenance.startswith("1 run, seed 0; 1 s in all on cpu;")
    assert "commit abc." in part.provenance
    assert "trains on 7.5 % of the tokens it has in tier paper" in part.provenance
    assert part.missing.startswith("Not run yet: ")


def test_findings_repeat_what_was_measured():
    store = Store(ROOT / "results")
    shown = set()
    bare = {"examples": 2_000, "prompt": "bare", "decoding": "greedy"}
    noisy = {"format": "plain", "noise": "random", "decoding": "sampled at 0.8"}
    hidden = [(place, {"format": "reverse", "place": place}) for place in (1, 2, 3)]
    for name, settings, metric, seeds in (
        ("plain_vs_reverse", {"format": "plain", **bare}, number("accuracy", 100), [0]),
        ("plain_vs_reverse", {"format": "reverse", **bare}, number("accuracy", 100), [0, 1]),
        ("noisy_prefix", noisy, number("exact", 100), [0, 1]),
        ("noisy_prefix", noisy, number("relaxed", 100), [0, 1]),
        *(("unseen_digits", settings, share("slice", f"5 at place {place}"), [0, 1]) for place, settings in hidden),
    ):
        lines = [line for line in store.read("paper", name) if dict(line.settings) == settings]
        assert sorted(line.seed for line in lines) == seeds, f"{name}: more is known than its finding tells"
        percent = mean(metric(line.metrics) for line in lines)
        told = cell(Stat(percent, percent, percent, 1), " %").removesuffix(" (1 seed)")
        assert told in EXPERIMENTS[name].finding
        shown.add(told)
    assert len(shown) == 7
    turns = {
        line.seed: next(row["step"] for row in line.metrics["history"] if row["7"] >= 0.5)
        for line in store.read("fast", "length_generalization")
        if dict(line.settings) == {"trained": "1 to 7 digits"}
    }
    told = "after {:,}, {:,} and {:,} steps (half right; seeds 0 to 2)".format(*(turns[seed] for seed in range(3)))
    assert told in EXPERIMENTS["length_generalization"].finding
    assert EXPERIMENTS["sample_efficiency"].finding == EXPERIMENTS["plain_vs_reverse"].finding
    fast, paper = make_chapter(EXPERIMENTS["plain_vs_reverse"], store).parts
    assert fast.items[0].note == EXPERIMENTS["plain_vs_reverse"].finding
    assert not any(item.note for item in paper.items)


def test_findings_in_tier_fast_repeat_what_was_measured():
    store = Store(ROOT / "results")

    def measured(name: str, tier: str = "fast") -> Measured:
        experiment = EXPERIMENTS[name]
        return Measured(store.read(tier, name), tier, experiment.seeds[tier], experiment.planned(tier))

    def shown(percent: float) -> str:
        return cell(Stat(percent, percent, percent, 1)).removesuffix(" (1 seed)")

    told = EXPERIMENTS["sampling"].finding
    sampling, wrapping = measured("sampling"), measured("wrapping", "paper")
    assert f"random {shown(sampling.mean(sampler='uniform', on='2-digit'))} %" in told
    assert f"{shown(sampling.mean(sampler='balanced', on='overall'))} % overall here" in told
    assert f"and {shown(wrapping.mean(order='plain', around='zero-padded', examples=10_000))} %" in told

    told = EXPERIMENTS["model_scale"].finding
    scale = measured("model_scale")
    bare, text = ({"model": "GPT-2", "on": "plain", "prompt": prompt} for prompt in (SAME, TEXT))
    examples = few_shot(scale, model="GPT-2", on="plain")
    assert f"{shown(scale.mean(**bare))} % bare become {shown(scale.mean(**text))} after text" in told
    assert f"{shown(examples)} after examples" in told
    costs = [few_shot(scale, model="GPT-2", on=on) - scale.mean(**{**text, "on": on}) for on in ("plain", "detailed")]
    assert f"plain {shown(costs[0])} points and detailed {shown(costs[1])}," in told

    told = EXPERIMENTS["text_mixture"].finding
    texts = measured("text_mixture")
    more = {
        mixing: texts.mean(after("short outside"), **asked) - texts.mean(after("long outside"), **asked)
        for mixing in ("blocks", "dialogue")
        for asked in [{"mixing": mixing, "plain": 10_000, "detailed": 3_000, "on": "plain", "prompt": TEXT}]
    }
    assert f"it costs {-more['blocks']:.2f} points less" in told
    assert f"{more['dialogue']:.2f} points more" in told

    told = EXPERIMENTS["matrix_completion"].finding
    completion = measured("matrix_completion")
    shares = [f"{100 * half_way(completion, 'as_published', n) / n**2:.0f}" for n in (20, 50, 100, 500)]
    assert "at {}, {}, {} and {} % of n²".format(*shares) in told

    told = EXPERIMENTS["forgetting"].finding
    ends: dict[tuple[str, float], dict[int, dict[str, float]]] = {}
    for line in sorted(measured("forgetting").lines, key=lambda line: line.seed):
        if history := line.metrics.get("history"):
            ends.setdefault((line.settings["format"], line.settings["lr"]), {})[line.seed] = history[-1]
    for format in ("reverse", "detailed_scratchpad"):
        found = [f"{100 * end['4 digits']:.0f}" for end in ends[format, min(RATES[format])].values()]
        assert "{} {}, {} and {} %".format(format.removesuffix("_scratchpad"), *found) in told
    plain = [ends["plain", rate] for rate in RATES["plain"]]
    losses = [end["loss"] for seeds in plain for end in seeds.values()]
    assert f"between {min(losses):.2f} and {max(losses):.2f}" in told
    for seeds in plain:
        assert f"One seed of three gets {100 * min(end['4 digits'] for end in seeds.values()):.0f} %" in told


def test_no_number_without_seed_device_and_commit():
    for tier, experiment, line in Store(ROOT / "results").everything():
        assert tier in ("fast", "paper"), "smoke results are not worth keeping"
        assert experiment in EXPERIMENTS
        assert line.version
        assert line.device
        assert isinstance(line.seed, int)
        assert line.config


def test_what_a_model_wrote_is_shown_as_it_is():
    table = Table("Written", ("sample",), [["<scratch>1|2 & 3"]])
    part = TierPart("fast", [], [table], "1 run", "")
    page = write_chapter(Chapter("name", "Title", "about", (), (), [part], "", ()), lambda name, figure: name)
    assert "| &lt;scratch>1\\|2 &amp; 3 |" in page


def test_figures_name_every_point_of_a_short_axis_and_tilt_only_long_labels():
    sizes = draw(Figure("t", "x", "y", [Series("a", [Point(x, 1) for x in (2_000, 10_000, 40_000)])], log_x=True))
    assert all(f">{tick}<" in sizes for tick in ("2,000", "10,000", "40,000"))
    many = draw(Figure("t", "x", "y", [Series("a", [Point(x, 1) for x in range(100, 400, 7)])], log_x=True))
    assert ">107<" not in many
    assert ">200<" in many
    for labels, tilted in (
        ("+-*/=", False),
        (("simplified_scratchpad", "detailed_scratchpad", "plain", "reverse"), True),
    ):
        bars = draw(Figure("t", "x", "y", [Series("a", [Point(label, 1) for label in labels])], bars=True))
        assert ("rotate(-20" in bars) is tilted


def test_what_differs_from_the_paper_by_more_than_the_seeds_is_said():
    def ours(x, low, high):
        return Point(x, (low + high) / 2, low, high, 3)

    plain = Series(
        "plain", [ours(1_000, 10, 20), ours(2_000, 50, 60), ours(3_000, 90, 92), Point(4_000, 50, 50, 50, 1)]
    )
    paper = Series(
        "plain (paper)", [Point(1_000, 20.4), Point(2_000, 20.0), Point(3_000, 89.4), Point(4_000, 0)], "paper"
    )
    alone = Series("reverse", [ours("a", 0, 1)])
    said = captions(Figure("t", "x", "y", [plain, paper, alone]))
    assert said == [
        "Further from the paper than our seeds are from each other: "
        "plain at 2 of 3 points (most at 2,000: 55.0, the paper 20.0)."
    ]
    assert captions(Figure("t", "x", "y", [plain, alone])) == []
    close = Series("plain (paper)", [Point(1_000, 15)], "paper", "exact")
    (only,) = captions(Figure("t", "x", "y", [plain, close]))
    assert only == "The paper's points: exact. Bands: the range over our seeds."
