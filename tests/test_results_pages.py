"""docs/results is what results/ says."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from statistics import mean

import pytest

from carryon.experiments import EXPERIMENTS
from carryon.experiments.forgetting import RATES
from carryon.experiments.lengths import at, longest_above, middle_cell, reached_cell
from carryon.experiments.matrix_completion import half_way
from carryon.experiments.measured import Measured, Metric, Stat, accuracy, number, share
from carryon.experiments.prompting import SAME, TEXT, after, few_shot
from carryon.experiments.showing import cell
from carryon.overview import make_chapter
from carryon.reports import Chapter, Figure, HeatMap, Point, Series, Table, TierPart
from carryon.reports.captions import captions
from carryon.reports.drawing import draw
from carryon.reports.html import write_page
from carryon.reports.markdown import write_chapter, write_overview
from carryon.results import TIERS, Line, Store

LINE = Line("r", "e", {}, {}, 0, {}, 1.0, "cpu", "abc")
ROOT = Path(__file__).parent.parent
STALE = "run: carryon report --format md"


def test_every_page_is_up_to_date():
    store = Store(ROOT / "results")
    chapters = [make_chapter(experiment, store) for experiment in EXPERIMENTS.values()]
    figures = set()
    for chapter in chapters:
        placed = []

        def place(name, figure, placed=placed):
            placed.append(f"figures/{name}.svg")
            return placed[-1]

        page = write_chapter(chapter, place)
        assert (ROOT / "docs/results" / f"{chapter.name}.md").read_text(encoding="utf-8") == page, STALE
        for path in placed:
            assert (ROOT / "docs/results" / path).is_file(), STALE
        figures.update(placed)
    assert (ROOT / "docs/results/README.md").read_text(encoding="utf-8") == write_overview(chapters), STALE
    assert {f"figures/{path.name}" for path in (ROOT / "docs/results/figures").iterdir()} == figures
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

    def each(experiment: Measured, metric: Metric = accuracy, **settings: object) -> list[float]:
        """By seed, the first three."""
        lines = sorted(experiment.of(**settings), key=lambda line: line.seed)
        return [value for line in lines if (value := metric(line.metrics)) is not None][:3]

    def listed(values: list[float], digits: int = 2) -> str:
        shown = [f"{value:.{digits}f}" for value in values]
        return f"{', '.join(shown[:-1])} and {shown[-1]}"

    told = EXPERIMENTS["sampling"].finding
    same = {"order": "plain", "around": "zero-padded", "examples": 10_000}
    assert f"gives {listed(each(measured('sampling'), sampler='balanced', on='overall'))} %" in told
    assert f"and {listed(each(measured('wrapping'), **same))} % in wrapping" in told
    assert f"it gives {listed(each(measured('wrapping', 'paper'), **same))} % (tier paper" in told

    told = EXPERIMENTS["model_scale"].finding
    scale = measured("model_scale")
    bare, text = ({"model": "GPT-2", "on": "plain", "prompt": prompt} for prompt in (SAME, TEXT))
    examples = few_shot(scale, model="GPT-2", on="plain")
    assert f"GPT-2's {shown(scale.mean(**bare))} % of plain sums become {shown(scale.mean(**text))} after text" in told
    assert f"and {shown(examples)} after examples" in told
    costs = [few_shot(scale, model="GPT-2", on=on) - scale.mean(**{**text, "on": on}) for on in ("plain", "detailed")]
    assert f"costs plain {shown(costs[0])} points and detailed {shown(costs[1])}." in told
    hardest = min(scale.mean(model="GPT-2", on="detailed", prompt=prompt) for prompt in (SAME, TEXT))
    assert (
        hardest == scale.mean(model="GPT-2", on="detailed", prompt=TEXT) < few_shot(scale, model="GPT-2", on="detailed")
    )
    full_length = each(scale, share("lengths", "3x3"), **bare), each(scale, share("lengths", "3x3"), **text)
    assert max(full_length[0]) < 40 < min(full_length[1])

    told = EXPERIMENTS["text_mixture"].finding
    for mixing, start in (("blocks", "short text hurts more, by"), ("dialogue", "long text, by")):
        asked = {"mixing": mixing, "plain": 10_000, "detailed": 3_000, "on": "plain", "prompt": TEXT}
        kinds = [each(measured("text_mixture"), after(f"{kind} outside"), **asked) for kind in ("short", "long")]
        assert f"{start} {listed([short - long for short, long in zip(*kinds, strict=True)])}" in told

    told = EXPERIMENTS["matrix_completion"].finding
    completion = measured("matrix_completion")
    shares = [f"{100 * half_way(completion, 'as_published', n) / n**2:.0f}" for n in (20, 50, 100, 500)]
    assert "at {}, {}, {} and {} % of n²".format(*shares) in told

    told = EXPERIMENTS["forgetting"].finding
    ends: dict[tuple[str, float], list[float]] = {}
    for line in sorted(measured("forgetting").lines, key=lambda line: line.seed):
        if history := line.metrics.get("history"):
            ends.setdefault((line.settings["format"], line.settings["lr"]), []).append(100 * history[-1]["4 digits"])
    for format in ("reverse", "detailed_scratchpad"):
        assert f"{format.removesuffix('_scratchpad')} {listed(ends[format, min(RATES[format])], 0)} %" in told
    plain = [sorted(ends["plain", rate]) for rate in RATES["plain"]]
    least, most = min(two[1] for two in plain), max(two[2] for two in plain)
    assert f"ends at {least:.0f} to {most:.0f} % in two seeds and at {plain[0][0]:.0f} % in the third" in told
    assert plain[0][0] == plain[1][0]

    told = EXPERIMENTS["one_more_digit"].finding
    digits = measured("one_more_digit")
    five, six = ({"format": "detailed_scratchpad", **settings} for settings in ({"digits": 5}, {"to": 6}))
    sizes = [size for size in digits.values("examples", **six) if digits.stat(**six, examples=size).seeds == 3]
    percents = [shown(digits.mean(**six, examples=size)) for size in sizes]
    listing = "get {}, {}, {} and {} % of six digits with {:,}, {:,}, {:,} and {:,} examples"
    assert listing.format(*percents, *sizes) in told
    before, by_size = each(digits, **five), [each(digits, **six, examples=size) for size in sizes]
    assert f"learnt those: {listed(before)} % (seeds 0 to 2), after" in told
    assert f"with 1,470 examples they get {listed(by_size[sizes.index(1_470)])}" in told
    assert all(min(by_seed) == by_seed[0] for by_seed in (before, *by_size))
    counts = []
    for lines in (digits.of(**five), digits.of(**six)):
        wrong = sum(line.metrics["count"] - line.metrics["right"] for line in lines)
        copying = sum(line.metrics["first_wrong_lines"].get("digit count", 0) for line in lines)
        counts += [f"{wrong:,}", f"{copying:,}"]
    assert "of {} wrong answers with five digits {}, and of {} with six {}, go wrong first".format(*counts) in told

    told = EXPERIMENTS["function_errors"].finding
    assert told == EXPERIMENTS["joint_tasks"].finding == EXPERIMENTS["other_operations"].finding
    root, sine = {"operation": "sqrt", "format": "plain"}, {"operation": "sine", "format": "detailed_scratchpad"}
    fast, full = ([measured("function_errors", tier).mean(**asked) for asked in (root, sine)] for tier in TIERS[1:])
    # 28.145 % is 28.14 or 28.15, by how it was added up.
    assert f"plain has {shown(fast[0])} %" in told
    assert f"for sine {shown(fast[1])}, the paper 44.40" in told
    assert "ours have 28.14 and 48.87 %" in told
    assert full == pytest.approx([28.145, 48.87], abs=0.011)

    told = EXPERIMENTS["format_switch"].finding
    asked = {"start": "plain", "target": "simplified_scratchpad"}
    assert f"end at {shown(measured('format_switch').mean(**asked))} %" in told
    full = measured("format_switch", "paper")
    assert f"they get {listed(each(full, **asked))} %" in told
    rows = [line.metrics["history"] for line in full.of(**asked) if "history" in line.metrics]
    half = [next(row["step"] for row in history if row.get("validation", 0) >= 0.5) for history in rows]
    assert "half right after {:,} and {:,} steps".format(*half) in told

    told = EXPERIMENTS["noisy_scratchpad"].finding
    asked = {"operation": "subtract", "examples": 20_000}
    alone = [measured("noisy_scratchpad").mean(noise=noise, **asked) for noise in ("A", "C")]
    assert f"alone leaves subtraction {shown(alone[0])} and {shown(alone[1])} %" in told
    assert f"both together {listed(each(measured('noisy_scratchpad'), noise='both', **asked))} %" in told

    told = EXPERIMENTS["wrapping"].finding
    padded = {n: measured("wrapping").mean(order="reverse", around="zero-padded", examples=n) for n in (3_000, 10_000)}
    assert f"from 3,000 examples to {shown(padded[3_000])} %" in told
    assert padded[10_000] < 1

    told = EXPERIMENTS["pretrained_finetuning"].finding
    asked = {"model": "SmolLM2-135M", "task": "+", "method": "none", "prompt": "few-shot"}
    read = each(measured("pretrained_finetuning"), lambda metrics: metrics["count"] - metrics["unreadable"], **asked)
    assert f"{listed(read, 0)} of 1,000 answers can be read" in told


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


def test_a_point_at_zero_has_no_place_on_a_logarithmic_axis_and_is_told():
    points = [Point(0, 0.5), Point(64, 14), Point(400, 93)]
    figure = Figure("t", "x", "y", [Series("to 4 digits (paper)", points, "paper")], log_x=True)
    assert draw(figure) == draw(replace(figure, series=[replace(figure.series[0], points=points[1:])]))
    assert "Left of the axis: the paper 0.5 at 0 (to 4 digits)." in captions(figure)
    assert not [said for said in captions(replace(figure, log_x=False)) if "Left" in said]
    assert figure.kind == "lines"
    ours = Series("to 4 digits", [Point(0, 0.25)])
    two = replace(figure, series=[ours, replace(figure.series[0], points=points[:2])])
    assert two.kind == "dots"  # of what has a place there is one
    left = "Left of the axis: 0.25 at 0 (to 4 digits); the paper 0.5 at 0 (to 4 digits)."
    assert left in captions(replace(figure, series=[ours, *figure.series]))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_experiment_has_a_report_of_its_own(name, tmp_path):
    """Some have claims of ours only, some none that was decided."""
    for results in (ROOT / "results", tmp_path):
        chapter = make_chapter(EXPERIMENTS[name], Store(results))
        page = write_page([chapter])
        words = unescape(re.sub("</?code>", "`", page))
        assert all(claim.says in words for claim in EXPERIMENTS[name].claims)
        assert not re.search(r'<td data-is="[^"]*"></td>', page)


def test_what_differs_from_the_paper_by_more_than_the_seeds_is_said():
    def ours(x, low, high):
        return Point(x, (low + high) / 2, low, high, 3)

    plain = Series(
        "plain", [ours(1_000, 10, 20), ours(2_000, 50, 60), ours(3_000, 90, 92), Point(4_000, 50, 50, 50, 1)]
    )
    points = [Point(1_000, 20.4), Point(2_000, 20.0), Point(3_000, 89.4), Point(4_000, 0)]
    bands = ["Bands: the range over our seeds.", "Small points: one seed."]
    for exactness, said, most in (
        ("", "at 2 of 3 points (most at 2,000: 55.0, the paper 20.0)", "0.5"),
        ("read off the figure, within 0.3", "at 2 of 3 points (most at 2,000: 55.0, the paper 20.0)", "0.5"),
        ("read off the figure, within 3", "at 1 of 3 points (most at 2,000: 55.0, the paper 20.0)", "3"),
    ):
        paper = Series("plain (paper)", points, "paper", exactness)
        assert captions(Figure("t", "x", "y", [plain, paper])) == [
            *([f"The paper's points: {exactness}."] if exactness else []),
            *bands,
            f"Further from the paper than our seeds are from each other, by more than {most}: plain {said}.",
        ]
    assert captions(Figure("t", "x", "y", [plain])) == bands
    close = Series("plain (paper)", [Point(1_000, 15)], "paper", "exact")
    assert captions(Figure("t", "x", "y", [plain, close])) == ["The paper's points: exact.", *bands]
    read = [Series(f"{name} (paper)", [Point(1_000, 15)], "paper", "read off the figure") for name in ("a", "b")]
    told = "The paper's points: plain exact; the others read off the figure."
    assert captions(Figure("t", "x", "y", [close, *read])) == [told, "Of ours nothing was run yet."]
    bars = Series("reverse", [ours("a", 0, 1)])
    assert captions(Figure("t", "x", "y", [bars], bars=True)) == ["Whiskers: the range over our seeds."]


def test_what_is_drawn_in_an_unusual_way_is_said():
    gap = [Point(x, 50, 40, 60, 3, after_gap=x == 4) for x in (1, 2, 4)]
    paper = Series("a (paper)", [Point(x, 50) for x in (1, 20)], "paper")
    figure = Figure("t", "x", "accuracy (%)", [Series("a", gap), paper])
    assert captions(figure) == [
        "The paper's go on to 20.",
        "Bands: the range over our seeds.",
        "Thinly dashed: what was planned in between was not run.",
    ]
    assert figure.x_end == 6.4
    assert draw(figure).count("stroke-dasharray") > draw(replace(figure, series=[Series("a", gap[:2]), paper])).count(
        "stroke-dasharray"
    )
    high = Figure("t", "x", "accuracy (%)", [Series("a", [Point("b", 82, 80, 84, 3), Point("c", 99)])], bars=True)
    assert high.kind == "dots"
    assert captions(high) == ["The axis begins at 70 %.", "Whiskers: the range over our seeds."]
    assert captions(Figure("t", "x", "y", [paper])) == ["Of ours nothing was run yet."]
    assert "<title>t &lt;&amp;</title>" in draw(replace(high, title="t <&"))


def test_a_gap_is_where_something_planned_was_not_run():
    planned = [{"examples": size} for size in (1, 2, 3, 4)]
    lines = [replace(LINE, settings={"examples": size}, metrics={"accuracy": size / 10}) for size in (1, 2, 4)]
    points = Measured(lines, planned=planned).curve("examples")
    assert [(point.x, point.after_gap) for point in points] == [(1, False), (2, False), (4, True)]
    assert not any(point.after_gap for point in Measured(lines).curve("examples"))


def test_what_another_experiment_measured_is_shown_where_its_run_belongs(tmp_path):
    """A run that two tiers share is told once; one that is another experiment's is told in both."""
    store = Store(tmp_path)
    lemmas, efficiency, reverse = (EXPERIMENTS[n] for n in ("lemmas", "sample_efficiency", "plain_vs_reverse"))
    case = lemmas.cases("fast")[0].with_seed(0)
    metrics = {"true": 1, "count": 1, "share": 1.0}
    store.add("fast", "lemmas", [Line(case.run.hash, "trials", {}, dict(case.settings), 0, metrics, 1.0, "cpu", "a")])
    (part,) = make_chapter(lemmas, store).parts
    assert part.tier == "fast"
    for one in reverse.cases("paper"):
        if one.settings == {"format": "reverse", "examples": 10_000}:
            case = one.with_seed(0)
    found = {"accuracy": 0.5, "count": 10}
    lines = [
        Line(case.run.hash, q.config.hash, {}, {**case.settings, **q.settings}, 0, found, 1.0, "cpu", "a")
        for q in case.questions
    ]
    store.add("paper", "plain_vs_reverse", lines)
    for experiment in (reverse, efficiency):
        (part,) = make_chapter(experiment, store).parts
        assert part.tier == "paper"
        assert part.provenance.startswith("1 run, seed 0;")


def test_a_heat_map_tells_every_number_and_what_was_not_measured():
    heat = HeatMap("t", "x", "y", ("5", "100"), ("5", "100"), ((100.0, 99.96), (None, 0.0)))
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", draw(heat))
    assert [text for text in drawn if text in ("100", "99", "–", "0")] == ["100", "100", "100", "99", "–", "0"]
    assert captions(heat) == []
    assert "nothing measured yet" in draw(HeatMap("t", "x", "y", ("5",), ("5",), ((None,),)))
    part = TierPart("fast", [], [replace(heat, note="said")], "", "")
    page = write_page([Chapter("c", "t", "a", (), (), [part], "", [])])
    assert page.count("<svg") == 1
    assert "said" in page
    assert "![t](here/c-fast-1)" in write_chapter(
        Chapter("c", "t", "a", (), (), [part], "", []), lambda name, figure: f"here/{name}"
    )


def by_lengths(**shares):
    return {"by": {"lengths": {label[1:]: [round(100 * share), 100] for label, share in shares.items()}}}


def test_the_longest_length_is_the_last_before_the_first_that_is_missed():
    metrics = by_lengths(_100x100=1.0, _10x10=1.0, _20x20=0.99, _50x50=0.6)
    assert [longest_above(metrics, level) for level in (100, 99, 50, 0)] == [10, 20, 100, 100]
    assert longest_above(by_lengths(_10x10=0.98, _20x20=1.0), 99) == 0


def test_seeds_are_told_by_their_median_and_their_ends():
    seeds = (0.97, 0.2, 1.0, 0.99)
    lines = [
        replace(LINE, run=str(seed), seed=seed, settings={"asked": "diagonal"}, metrics=by_lengths(_9x9=share))
        for seed, share in enumerate(seeds)
    ]
    measured = Measured(lines, "fast", 4)
    assert middle_cell(measured, at(9), asked="diagonal") == "98 (20 to 100, 4 seeds)"
    assert reached_cell(measured, 97) == "9, none, 9, 9"
    assert middle_cell(Measured(lines[:1], "fast", 4), at(9), asked="diagonal") == "97 (1 seed)"
    assert middle_cell(Measured([], "fast", 4), at(9)) == reached_cell(Measured([], "fast", 4), 99) == "–"
