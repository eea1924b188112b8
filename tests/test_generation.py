import copy
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from carryon.config import ModelConfig
from carryon.errors import BadConfig, UnknownCharacter
from carryon.formats import Texts
from carryon.generation import Completer, perplexity, token_probabilities, writing
from carryon.generation.recording import Recorder
from carryon.model import Decoder, LanguageModel
from carryon.positions import POSITIONS, Learned
from carryon.tokenizers import Characters

torch.set_num_threads(1)
TOKENIZER = Characters("0123456789+=$\n")


@pytest.fixture(scope="module")
def model():
    """Untrained, with weights so large that it has opinions: its answers differ from prompt to prompt."""
    torch.manual_seed(5)
    made = Decoder(ModelConfig(layers=2, heads=2, width=16, context=48, dropout=0.1), TOKENIZER.vocab_size)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=1.0 if "embedding" in name or "position" in name else 0.5)
    return made


PROMPTS = [f"{a}+{b}=" for a, b in [(1, 2), (12, 3), (128, 367), (5, 5), (999, 1), (10, 2000), (7, 7), (31, 41)]] * 3


def ended(text):
    return "$" in text or "\n" in text


def slowly(model, prompt, max_new, pick=lambda scores, step: int(scores.argmax())):
    """The obvious way: the whole prefix again for every token, one prompt at a time."""
    model.eval()
    ids = TOKENIZER.encode(prompt).astype(np.int64).tolist()
    written = ""
    with torch.no_grad():
        for step in range(min(max_new, model.config.context - len(ids))):
            scores = model(torch.tensor([ids]))[0, -1]
            ids.append(pick(scores, step))
            written += TOKENIZER.decode(np.array(ids[-1:]))
            if ended(written):
                break
    return written


def test_generation_equals_the_slow_obvious_way(model):
    expected = [slowly(model, prompt, 40) for prompt in PROMPTS]
    assert len(set(expected)) > 5
    assert len({len(text) for text in expected}) > 3  # some stop early, some run on
    assert Completer(model, TOKENIZER, ended, 40)(PROMPTS) == expected


def test_rows_that_reach_the_end_of_the_context_keep_their_last_token(model):
    """They wait for shorter ones in their batch, whose last token is still to come."""
    completer = Completer(model, TOKENIZER, lambda text: False, 60)
    prompts = ["1=", "12+34=", "128+367=", "1234+56789="]
    assert completer(prompts) == [completer([prompt])[0] for prompt in prompts]
    assert all(len(prompt + text) == 48 for prompt, text in zip(prompts, completer(prompts), strict=True))


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_batch_size_and_order_change_nothing(model, batch_size, temperature):
    whole = Completer(model, TOKENIZER, ended, 40, temperature=temperature, seed=7)(PROMPTS)
    parts = Completer(model, TOKENIZER, ended, 40, temperature=temperature, seed=7, batch_size=batch_size)(PROMPTS)
    backwards = Completer(model, TOKENIZER, ended, 40, temperature=temperature, seed=7, batch_size=batch_size)(
        PROMPTS[::-1]
    )
    assert parts == whole
    assert backwards[::-1] == whole


class Repeating(Recorder):
    """There is no GPU to record on: what would be recorded is done each time, or the recording fails."""

    def __init__(self, error=None):
        self._works, self.error = True, error
        self.recorded = self.repeated = self.forgotten = 0

    def _record(self, step):
        if self.error:
            raise self.error
        (page,) = (cell.cell_contents for cell in step.__closure__)
        places = self.places(page)
        self.recorded += 1

        def replay():
            assert self.places(page) == places  # a graph would go on writing there
            self.repeated += 1
            step()

        return SimpleNamespace(replay=replay)

    @staticmethod
    def places(page):
        tensors = (page._tokens_BS, page._lengths_B, page._step, page._cache.keys, page._cache.values)
        return [tensor.data_ptr() for tensor in tensors]

    def forget(self):
        self.forgotten += 1


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("position", POSITIONS)
def test_a_recorded_step_repeated_writes_what_single_steps_do(position, temperature, monkeypatch):
    torch.manual_seed(2)
    config = ModelConfig(layers=2, heads=2, width=16, context=120, position=position)
    made = Decoder(config, TOKENIZER.vocab_size).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.5)
    complete = Completer(made, TOKENIZER, lambda text: "$" in text, 100, temperature=temperature)
    expected = complete(PROMPTS)
    recorder = Repeating()
    monkeypatch.setattr(writing, "recorder_on", lambda device: recorder)
    assert complete(PROMPTS) == expected
    assert 2 <= recorder.recorded <= 8
    assert recorder.repeated > 40


@pytest.mark.parametrize("memory", [True, False])
def test_where_nothing_can_be_recorded_writing_goes_on_without(model, memory, monkeypatch):
    error = torch.OutOfMemoryError("CUDA out of memory") if memory else RuntimeError("operation not permitted")
    recorder = Repeating(error)
    complete = Completer(model, TOKENIZER, ended, 40)
    expected = complete(PROMPTS)
    monkeypatch.setattr(writing, "recorder_on", lambda device: recorder)
    with nullcontext() if memory else pytest.warns(UserWarning, match="operation not permitted"):
        assert complete(PROMPTS) == expected
    assert recorder.forgotten == memory
    # For want of memory another batch may try again; what failed otherwise is left alone.
    assert recorder._works == memory


@pytest.mark.parametrize("prefix", ["", "1+1=2\n"])
def test_what_a_model_would_write_is_confirmed_and_nothing_else(model, prefix):
    complete = Completer(model, TOKENIZER, ended, 30, remember=True)
    written = complete([prefix + prompt for prompt in PROMPTS])
    wrong = [text[:-2] + ("1" if text[-2:-1] != "1" else "2") + text[-1:] for text in written]
    for drafts in (written, wrong, [w if i % 2 else d for i, (w, d) in enumerate(zip(written, wrong, strict=True))]):
        texts = Texts.of(list(zip(PROMPTS, drafts, strict=True)))
        expected = [draft == text for draft, text in zip(drafts, written, strict=True)]
        for _ in range(2):  # the second time from memory
            assert complete.confirm(texts, prefix).tolist() == expected
    assert not Completer(model, TOKENIZER, ended, 30, temperature=0.8).confirm(texts, prefix).any()


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_texts_are_confirmed_side_by_side_by_threads_that_compute_alone(model, precision, two_threads, monkeypatch):
    alone = Completer(model, TOKENIZER, ended, 30, precision=precision, batch_size=8)
    alone._threads = 1
    written = list(zip(PROMPTS, alone(PROMPTS), strict=True))
    texts = Texts.of([*written, *((prompt, text[:-1] + "7$") for prompt, text in written)])
    expected = alone.confirm(texts).tolist()
    assert set(expected) == {True, False}
    meet, seen = threading.Barrier(2), []
    scores_from = model.scores_from

    def note(*given):
        seen.append((threading.get_ident(), (torch.get_num_threads(), torch.is_grad_enabled())))
        if len(seen) <= 2:
            meet.wait(timeout=30)  # the first two, or there are none at the same time
        scores = scores_from(*given)
        assert scores.dtype == precision
        return scores

    monkeypatch.setattr(model, "scores_from", note)
    assert Completer(model, TOKENIZER, ended, 30, precision=precision, batch_size=8).confirm(texts).tolist() == expected
    assert len(seen) > 4
    assert len({thread for thread, *_ in seen}) == 2
    assert {how for _, how in seen} == {(1, False)}
    assert torch.get_num_threads() == 2


def test_few_texts_are_shared_out_among_all_threads(model, two_threads):
    texts = Texts.of([(prompt, "3$") for prompt in PROMPTS])
    completer = Completer(model, TOKENIZER, ended, 30)
    rows = [len(draft.rows) for draft in completer._prepare(texts, "")]
    assert sum(rows) == len(PROMPTS)
    assert max(rows) <= max(8, len(PROMPTS) / 2) < len(PROMPTS)


def test_what_fails_in_a_thread_fails(model, two_threads, monkeypatch):
    def fail(*given):
        raise MemoryError("no room")

    monkeypatch.setattr(model, "scores_from", fail)
    texts = Texts.of([(prompt, "3$") for prompt in PROMPTS])
    with pytest.raises(MemoryError, match="no room"):
        Completer(model, TOKENIZER, ended, 30, batch_size=4).confirm(texts)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_what_rows_begin_with_is_read_once_and_means_the_same(position, precision):
    torch.manual_seed(1)
    made = Decoder(ModelConfig(layers=2, heads=2, width=16, context=48, position=position), TOKENIZER.vocab_size).eval()
    tokens = torch.cat((torch.randint(14, (1, 20)).expand(5, -1), torch.randint(14, (5, 9))), dim=1)
    tokens[:, 20] = torch.arange(5)  # alike up to here
    lengths = torch.tensor([29, 22, 21, 25, 23])
    read = []
    made.blocks[0].up.register_forward_pre_hook(lambda block, given: read.append(tuple(given[0].shape[:2])))
    near = {"atol": 1e-5, "rtol": 1e-5} if precision == torch.float32 else {"atol": 5e-3, "rtol": 0}
    with torch.autocast("cpu", dtype=precision, enabled=precision != torch.float32):
        for place, alike in ((0, 0), (0, 20), (9, 7), (12, 8), (22, 20), (20, 20), (10, 20)):
            expected = made(tokens)[:, place:]
            read.clear()
            torch.testing.assert_close(made.scores_from(place, tokens, alike), expected, **near)
            once = min(place, alike)
            assert read == ([(1, once), (5, 29 - once)] if once >= 8 else [(5, 29)])
        cache = made.new_cache(5, 40, torch.device("cpu"), precision)
        first = made.first_scores(tokens, lengths, cache)
        one = [made(row[None, :length])[0, -1] for row, length in zip(tokens, lengths, strict=True)]
        torch.testing.assert_close(first, torch.stack(one), **near)
        # And what was read is in the cache, for all that comes.
        tokens = tokens[:, :22].clone()
        at = torch.full((5,), 21)
        goes_on = made.next_scores(tokens, at, cache)
        torch.testing.assert_close(goes_on, made(tokens)[:, -1], **near)


@torch.no_grad()
def test_ids_that_later_tokens_change_are_not_shared():
    class FromTheEnd(Learned):
        def ids(self, tokens_BT):
            return (tokens_BT == 3).flip(1).cumsum(1).flip(1)

    made = Decoder(ModelConfig(layers=1, heads=2, width=16, context=48), TOKENIZER.vocab_size).eval()
    made.position = FromTheEnd(made.config)
    tokens = torch.full((2, 12), 5)
    tokens[1, 10] = 3
    torch.testing.assert_close(made.scores_from(6, tokens, 6), made(tokens)[:, 6:])


def test_batches_end_where_rows_stop_being_alike():
    """1,000 sums begin with the same number; a batch of 1,024 would end in the next thousand."""
    texts = Texts.of([(f"{a:03}+{b:03}=", f"{a + b:04}\n") for a in (7, 8) for b in range(1000)])
    model = Decoder(ModelConfig(layers=1, heads=2, width=16, context=48), TOKENIZER.vocab_size)
    drafts = Completer(model, TOKENIZER, ended, 30, batch_size=1024)._prepare(texts, "")
    assert [(len(rows), place, alike) for rows, _, _, place, alike in drafts] == [(1000, 7, 4)] * 2
    assert np.concatenate([rows for rows, *_ in drafts]).tolist() == list(range(2000))
    # Rows that have nothing in common fill their batches, but for one or two that have a digit.
    mixed = Texts.of([(f"{n * 7919 % 1000:03}+{n:03}=", "0\n") for n in range(1000)])
    drafts = Completer(model, TOKENIZER, ended, 30, batch_size=300)._prepare(mixed, "")
    assert [round(len(rows), -1) for rows, *_ in drafts] == [300, 300, 300, 100]
    # Behind examples all of them have those in common, and one row alone has all but its answer.
    for texts in (mixed, Texts.of([("128+367=", "495\n")])):
        drafts = Completer(model, TOKENIZER, ended, 30, batch_size=300)._prepare(texts, "1+1=2\n3+4=7\n")
        assert {alike for *_, alike in drafts} == {12 if texts is mixed else 24}


def test_what_is_too_long_for_the_model_is_not_confirmed(model):
    texts = Texts.of([("1+2=", "3" * 60 + "$"), ("1+2=", "$")])
    assert not Completer(model, TOKENIZER, ended, 100).confirm(texts)[0]
    assert not Completer(model, TOKENIZER, ended, 1).confirm(Texts.of([("1+2=", "3$")])).any()


def test_rows_of_one_token_and_weights_of_16_bits_are_confirmed(model):
    assert Completer(model, TOKENIZER, ended, 30).confirm(Texts.of([("", "$"), ("", "$")])).tolist() == [True, True]
    low = copy.deepcopy(model).bfloat16()
    texts = Texts.of([(f"128+{n:03}=", "495$") for n in range(50)])
    assert Completer(low, TOKENIZER, ended, 30).confirm(texts).shape == (50,)


def test_sampling_follows_the_seed_and_the_probabilities(model):
    first = Completer(model, TOKENIZER, ended, 1, temperature=1.0, seed=1)(PROMPTS[:8])
    assert first == Completer(model, TOKENIZER, ended, 1, temperature=1.0, seed=1)(PROMPTS[:8])
    drawn = [Completer(model, TOKENIZER, ended, 1, temperature=1.0, seed=s)(PROMPTS[:1])[0] for s in range(400)]
    model.eval()
    with torch.no_grad():
        chances = model(torch.from_numpy(TOKENIZER.encode(PROMPTS[0]).astype(np.int64))[None])[0, -1].softmax(-1)
    for token in set(drawn):
        share = float(chances[int(TOKENIZER.encode(token)[0])])
        assert abs(drawn.count(token) / 400 - share) < 0.1


def test_top_1_sampling_is_greedy(model):
    greedy = Completer(model, TOKENIZER, ended, 40)(PROMPTS)
    assert Completer(model, TOKENIZER, ended, 40, temperature=0.7, top_k=1, seed=3)(PROMPTS) == greedy


def test_completions_stop_at_the_end_mark_and_at_the_context(model):
    for prompt, text in zip(PROMPTS, Completer(model, TOKENIZER, ended, 1_000)(PROMPTS), strict=True):
        assert not ended(text[:-1])
        assert len(prompt) + len(text) <= model.config.context


def test_generating_leaves_the_model_as_it_was(model):
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    Completer(model, TOKENIZER, ended, 10)(PROMPTS)
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_prompts_that_cannot_be_asked(model):
    complete = Completer(model, TOKENIZER, ended, 5)
    with pytest.raises(BadConfig, match="does not fit the model's context of 48"):
        complete(["1+" * 40])
    with pytest.raises(UnknownCharacter, match="'x'"):
        complete(["1+x="])
    with pytest.raises(BadConfig, match="at least one character"):
        complete([""])
    cropped = Completer(model, TOKENIZER, ended, 5, crop=True)
    assert cropped(["1+" * 40]) == cropped([("1+" * 40)[-43:]])
    assert complete([]) == []


def test_probabilities_are_those_of_the_model(model):
    (written,) = Completer(model, TOKENIZER, ended, 6)(["12+3="])
    rows = token_probabilities(model, TOKENIZER, "12+3=", written)
    assert "".join(row["token"] for row in rows) == written
    for row in rows:
        assert row["likeliest"][0] == (row["token"], pytest.approx(row["probability"]))  # greedy


def test_perplexity_is_exp_of_the_mean_loss(model):
    tokens = TOKENIZER.encode("12+3=15\n" * 30)
    model.eval()
    windows = [tokens[i : i + 49].astype(np.int64) for i in range(0, len(tokens) - 48, 48)]
    losses = []
    with torch.no_grad():
        for window in windows:
            ids = torch.from_numpy(window)[None]
            losses.append(float(model.loss(ids[:, :-1], ids[:, 1:])) / 48)
    assert perplexity(model, tokens) == pytest.approx(float(np.exp(np.mean(losses))), rel=1e-4)
    with pytest.raises(BadConfig):
        perplexity(model, tokens[:1])


class Oracle(LanguageModel):
    """Reads all that it is given, and goes on with the sum that stands last in it."""

    def __init__(self, context):
        super().__init__()
        self.context, self.vocab_size = context, TOKENIZER.vocab_size
        self.numbers_per_token = self.working_numbers_per_token = 2
        self.anything = torch.nn.Parameter(torch.zeros(1))

    def _next(self, text):
        asked, equals, written = text.rpartition("=")
        a, plus, b = asked.rpartition("\n")[2].partition("+")
        answer = f"{int(a) + int(b)}\n" if equals and plus and a and b else "\n"
        return answer[len(written)] if answer.startswith(written) and written != answer else "\n"

    def forward(self, tokens_BT):
        scores = torch.zeros(*tokens_BT.shape, self.vocab_size)
        for row, ids in enumerate(tokens_BT.tolist()):
            text = TOKENIZER.decode(np.array(ids))
            for place in range(len(ids)):
                scores[row, place, int(TOKENIZER.encode(self._next(text[: place + 1]))[0])] = 1
        return scores

    @property
    def num_parameters(self):
        return 0

    def new_cache(self, batch, length, device, dtype):
        class Nothing:
            def keep(self, rows): ...

        return Nothing()

    def first_scores(self, tokens_BT, lengths_B, cache):
        return self(tokens_BT)[torch.arange(len(tokens_BT)), lengths_B - 1]

    def next_scores(self, tokens_BS, at_B, cache):
        return self(tokens_BS)[torch.arange(len(tokens_BS)), at_B]


@pytest.mark.parametrize("examples", range(6))
def test_a_prompt_that_is_cut_leaves_room_for_the_answer(examples):
    """A context of 30 has room for two examples and a sum, but not for an answer behind them."""
    prefix, answer = "12+34=46\n" * examples, "495\n"
    completer = Completer(Oracle(30), TOKENIZER, lambda text: text.endswith("\n"), 6, crop=True)
    assert completer([prefix + "128+367="]) == [answer]
    assert completer.cropped == (examples > 1)  # 17 characters leave room for six more, 26 do not
    texts = Texts.of([("128+367=", answer)])
    assert completer.confirm(texts, prefix).tolist() == [examples <= 1]  # what is cut has to be written


def test_answers_as_long_as_the_context_leave_a_quarter_to_the_prompt():
    completer = Completer(Oracle(32), TOKENIZER, lambda text: text.endswith("\n"), 40, crop=True)
    assert completer(["12+34=46\n" * 3 + "12+3="]) == ["15\n"]


class Crowded(Oracle):
    """Has memory for so many rows and no more."""

    def __init__(self, context, room):
        super().__init__(context)
        self.room, self.tried = room, []

    def first_scores(self, tokens_BT, lengths_B, cache):
        self.tried.append(len(tokens_BT))
        if len(tokens_BT) > self.room:
            raise torch.OutOfMemoryError("there is none")
        return super().first_scores(tokens_BT, lengths_B, cache)


def test_rows_that_memory_has_no_room_for_are_asked_in_smaller_batches():
    model = Crowded(30, room=3)
    prompts = [f"{a}+{a}=" for a in range(10, 20)]
    completer = Completer(model, TOKENIZER, lambda text: text.endswith("\n"), 6)
    assert completer(prompts) == [f"{2 * a}\n" for a in range(10, 20)]
    assert model.tried == [10, 5, 2, 2, 2, 2, 2]
    with pytest.raises(torch.OutOfMemoryError):  # one row is the least there is
        Completer(Crowded(30, room=0), TOKENIZER, ended, 6)(prompts)


def test_the_longer_the_prompts_the_fewer_rows_are_read_at_once():
    """Reading a prompt takes memory for all of its tokens, however short the answer: both count, and stay in bounds."""
    width, precision = 384, 4
    model = Decoder(ModelConfig(layers=6, heads=6, width=width, context=1024, dropout=0.0), TOKENIZER.vocab_size)
    completer = Completer(model, TOKENIZER, ended, 6, batch_size=10**9)
    for length in (10, 100, 1_000):
        rows = completer._rows_that_fit(length)
        kept = 2 * 6 * width * (length + 6) * precision
        in_one_layer = (4 + 4 + 3 + 1 + 1) * width * length * precision  # up, bent, queries to values, in, out
        assert 0.25 * 2**28 < rows * (kept + in_one_layer) < 2**28
