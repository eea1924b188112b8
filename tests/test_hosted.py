import json
import os
import signal
import socket
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from carryon.cli import main
from carryon.cli.finetune import finetune
from carryon.cli.hosted import evaluate as evaluate_hosted
from carryon.config import DataConfig, load
from carryon.data import make_dataset, write_dataset
from carryon.errors import (
    BadConfig,
    BadInput,
    BadRun,
    CapReached,
    CarryonError,
    JobFailed,
    MissingExtra,
    PathExists,
    RunMismatch,
    ServerFailing,
    ServerRefused,
    Unsupported,
)
from carryon.evaluation import evaluate, exemplar_pairs, exemplars, read_problems
from carryon.formats import make_format
from carryon.interop.hosted import (
    Answers,
    Endpoint,
    EndpointConfig,
    HostedExam,
    LimitsConfig,
    Request,
    RequestConfig,
    TokenCount,
    TuningConfig,
    TuningJob,
    config_of_dataset,
    estimate_tuning,
)
from carryon.interop.hosted.patience import Pace
from fault_server import FaultServer

KEY = "sk-secret-1f2e3d4c5b6a"
FORMAT = make_format("hosted_plain")
PROBLEMS = read_problems([f"{a}+{b}" for a, b in zip(range(100, 140), range(207, 247), strict=True)], "here")
PROMPTS = [FORMAT.write(problem).prompt for problem in PROBLEMS]
QUICK = LimitsConfig(concurrency=8, backoff=0.01)


def adder(prompt, format=FORMAT):
    """Adds; every seventh sum is off by one, and every eleventh is no number."""
    question = prompt.replace(" ", "").removesuffix("=")
    problem = read_problems([question], "prompt")[0]
    total = int(problem.answer)
    if total % 11 == 0:
        return " no idea###"
    other = read_problems([f"{total + (total % 7 == 0)}+0"], "prompt")[0]
    return format.write(other).completion


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FaultServer(adder, key=KEY) as running:
        yield running


@pytest.fixture
def exam(server, tmp_path):
    """exam(…) asks the server; endpoints are shared, as each loads the system's certificates, and closed at the end."""
    opened = {}

    def make(
        problems=PROBLEMS, limits=QUICK, path=None, timeout=20.0, shots=(), lenient=False, format=FORMAT, **request
    ):
        which = (timeout, os.environ.get("OPENAI_API_KEY"))
        if which not in opened:
            opened[which] = Endpoint(EndpointConfig(base_url=server.url, timeout=timeout))
        config = RequestConfig(**{"model": "adder-small", **request})
        return HostedExam(
            opened[which],
            config,
            problems,
            format,
            path or tmp_path / "answers.jsonl",
            limits=limits,
            shots=shots,
            unanswered_are_wrong=lenient,
        )

    yield make
    for endpoint in opened.values():
        endpoint.__exit__()


def found(result):
    """The part of a result that does not depend on how it was come by."""
    return {name: value for name, value in result.items() if name not in ("asked_now", "answers", "seconds")}


def expected():
    """What an undisturbed evaluation of the same answers finds."""
    return evaluate(PROBLEMS, FORMAT, lambda prompts: [adder(prompt) for prompt in prompts]).as_dict()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- evaluation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_a_hosted_model_is_scored_like_any_other(exam, server, kind):
    server.delay = 0.01
    result, report = exam(kind=kind).ask()
    assert {name: result[name] for name in expected()} == expected()
    assert 0 < result["right"] < 40
    assert result["unreadable"] == sum(int(p.answer) % 11 == 0 for p in PROBLEMS) > 0
    assert server.asked == dict.fromkeys(PROMPTS, 1)
    assert 1 < server.most_at_once <= 8
    assert all(body["stop"] == ["###"] and body["temperature"] == 0 for body in server.bodies)
    assert (result["requests"], result["input_tokens"]) == (40, sum(map(len, PROMPTS)))
    assert {row["question"] for row in report.failures} == {
        p.question for p in PROBLEMS if int(p.answer) % 7 == 0 or int(p.answer) % 11 == 0
    }


def test_what_was_answered_is_not_asked_again_and_needs_no_server(exam, server, monkeypatch):
    first, _ = exam().ask()
    server.__exit__()
    monkeypatch.delenv("OPENAI_API_KEY")
    again, _ = exam().ask()
    assert found(again) == found(first)
    assert again["asked_now"] == 0
    assert exam().estimate().in_words() == "0 requests (40 of 40 are answered already)"


def test_faults_pass_and_change_nothing(exam, server):
    kinds = [500, 503, 504, 429, (429, {"Retry-After": "0.05"}), (503, {"retry-after-ms": "30"}), "reset", "cut"]
    kinds += [
        "no json",
        "no choices",
        "no finish",
        "empty",
        (429, {"Retry-After": formatdate(time.time() - 5, usegmt=True)}),
    ]
    for number, fault in enumerate(kinds):
        server.faults[PROMPTS[number]] = [fault]
    server.faults[PROMPTS[20]] = ["cut", 500, "no json", "reset", 429]
    disturbed, _ = exam().ask()
    assert {k: disturbed[k] for k in expected()} == expected()
    assert server.asked[PROMPTS[20]] == 6
    assert all(server.asked[prompt] == 2 for prompt in PROMPTS[: len(kinds)])
    assert disturbed["unanswered"] == 0


@pytest.mark.parametrize("fault", ["slow", "drip"])
def test_an_answer_that_does_not_come_in_time_is_asked_for_again(exam, server, fault):
    server.faults[PROMPTS[3]] = [fault]
    started = time.monotonic()
    result, _ = exam(timeout=0.4).ask()
    assert time.monotonic() - started < 8
    assert {k: result[k] for k in expected()} == expected()
    assert server.asked[PROMPTS[3]] == 2
    # It may have been charged: the file says so.
    (fault_row,) = [row for row in lines(Path(result["answers"])) if "fault" in row]
    assert fault_row["fault"].startswith("no ")
    assert result["requests"] == 41


RIGHT = [prompt for prompt, p in zip(PROMPTS, PROBLEMS, strict=True) if int(p.answer) % 7 and int(p.answer) % 11][1:]


def test_an_answer_that_is_empty_cut_or_filtered_is_wrong_and_never_an_error(exam, server):
    kinds = ["empty", "length", "filtered", (400, {}, {"message": "blocked", "code": "content_filter"})]
    for prompt, kind in zip(RIGHT, kinds, strict=False):
        server.faults[prompt] = [kind] * 20
    result, _ = exam().ask()
    assert result["right"] == expected()["right"] - len(kinds)
    assert result["count"] == 40
    assert (result["cut_short"], result["filtered"], result["unanswered"]) == (1, 2, 0)
    # A model that ran out of tokens, or was filtered, would do so again: asked once. An empty one gets more chances.
    assert [server.asked[prompt] for prompt in RIGHT[:4]] == [3, 1, 1, 1]
    assert exam().estimate().requests == 0


def test_half_answers_that_stay_half_are_no_answers(exam, server):
    kinds = ["no json", "no choices", "no finish"]
    for prompt, kind in zip(RIGHT[::9], kinds, strict=False):  # apart: one after the other they would be an outage
        server.faults[prompt] = [kind] * 3
    limits = LimitsConfig(concurrency=4, backoff=0.01)
    with pytest.raises(ServerFailing, match=r"3 of 40 problems got no answer.*--unanswered-are-wrong"):
        exam(limits=limits).ask()
    assert [server.asked[prompt] for prompt in RIGHT[::9][:3]] == [3, 3, 3]
    result, _ = exam(limits=limits).ask()
    assert result["asked_now"] == 3
    assert {k: result[k] for k in expected()} == expected()
    server.faults[RIGHT[0]] = ["no choices"] * 3
    result, _ = exam(limits=limits, lenient=True, temperature=0.5).ask()
    assert (result["unanswered"], result["right"]) == (1, expected()["right"] - 1)


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (("text/html; charset=utf-8", "<html>Welcome</html>"), "(no JSON but text/html)"),
        (("application/json", "{broken"), "(broken JSON)"),
        (("application/json", "[1,2]"), "(JSON without choices in it)"),
        (("application/json", '{"choices":[]}'), "(JSON without a message in it)"),
        (("application/json", '{"choices":[{"message":{"content":42},"finish_reason":"length"}]}'), "without text"),
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_a_server_that_does_not_speak_the_protocol_is_named_and_never_scored(exam, server, page, says, lenient):
    server.page = (page[0], page[1].encode())
    with pytest.raises(
        ServerFailing, match=r"answers, but not as OpenAI's protocol does.*is --base-url right"
    ) as caught:
        exam(lenient=lenient).ask()
    assert says in str(caught.value)
    assert server.url in str(caught.value)
    assert sum(server.asked.values()) == 3
    server.page = None
    assert exam().estimate().requests == 40
    result, _ = exam().ask()
    assert {k: result[k] for k in expected()} == expected()


@pytest.mark.parametrize("fault", ["drip headers", "drip error"])
def test_the_time_for_an_answer_holds_for_headers_and_errors_too(exam, server, fault):
    server.faults[PROMPTS[3]] = [fault]
    started = time.monotonic()
    result, _ = exam(timeout=1.5).ask()
    assert time.monotonic() - started < 8  # the server drips for ten seconds
    assert {k: result[k] for k in expected()} == expected()
    assert server.asked[PROMPTS[3]] == 2
    assert "no answer within 1.5 s" in [row.get("fault") for row in lines(Path(result["answers"]))]


@pytest.mark.parametrize("fault", ["huge error", "packed"])
def test_an_answer_that_is_too_long_is_not_read_to_its_end(exam, server, monkeypatch, fault):
    monkeypatch.setattr("carryon.interop.hosted.wire._LONGEST_REPLY", 50_000)
    server.faults[PROMPTS[3]] = [fault]
    said = []
    result, _ = exam().ask(tell=said.append)
    assert said == ["an answer of more than 50,000 bytes: trying again"]
    assert {k: result[k] for k in expected()} == expected()


@pytest.mark.parametrize("cursed", [0, 5])
def test_a_prompt_that_the_server_refuses_is_that_prompts_own_fault(exam, server, cursed):
    server.faults[PROMPTS[cursed]] = [422, 400, 413]
    with pytest.raises(
        ServerFailing, match=r"1 of 40 problems got no answer, .* 422: told to fail .*; 39 of 40 answers"
    ):
        exam().ask()
    assert server.asked == dict.fromkeys(PROMPTS, 1)
    result, _ = exam(lenient=True).ask()
    assert (result["asked_now"], result["unanswered"], result["count"]) == (1, 1, 40)
    for prompt in PROMPTS[20:]:
        server.faults[prompt] = [400] * 3
    with pytest.raises(ServerFailing, match=r"fails with: 400: told to fail .*; \d+ of 40 answers are kept"):
        exam(temperature=0.5).ask()


def test_answers_on_their_way_are_waited_for_when_the_server_refuses_the_rest(exam, server, monkeypatch):
    monkeypatch.setattr("carryon.interop.hosted.asking._GRACE", 0.2)
    server.delay = 0.3  # so that all of them are on their way when one is refused
    server.faults[PROMPTS[1]] = [403]
    for prompt in PROMPTS[2:8]:
        server.faults[prompt] = ["slow"]
    said = []
    with pytest.raises(ServerRefused, match=r"refuses the key .*; 7 of 40 answers are kept"):
        exam(limits=LimitsConfig(concurrency=7)).ask(tell=said.append)
    assert said == ["waiting for 6 on their way, which are paid for: Ctrl-C leaves them"]
    assert sum(server.asked.values()) == 8
    assert len(lines(exam()._answers.path)) == 7


def test_requests_that_ctrl_c_leaves_on_their_way_are_counted(exam, server, monkeypatch):
    monkeypatch.setattr("carryon.interop.hosted.asking._GRACE", 0.2)
    for prompt in PROMPTS[1:9]:
        server.faults[prompt] = ["slow"]

    def interrupt(answered):
        if sum(server.asked.values()) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exam().ask(tick=interrupt)
    rows = lines(exam()._answers.path)
    assert len([row for row in rows if "text" in row]) == 1
    left = [row for row in rows if row.get("fault") == "left on its way when everything stopped"]
    assert len(left) == 8
    assert all(row["at_most"] and row["input"] > 0 and row["output"] > 0 for row in left)
    with pytest.raises(CapReached):  # one answered and eight left: none is left of nine
        exam(limits=LimitsConfig(max_requests=9)).ask()


def test_an_error_with_status_200_is_told_in_its_words_and_means_what_it_says(exam, server):
    server.faults[PROMPTS[3]] = [("json", {"error": {"message": "slow down", "code": 429}}), ("json", {"error": "odd"})]
    said = []
    result, _ = exam().ask(tell=said.append)
    assert said == ["429: slow down: trying again", "odd: trying again"]
    assert {k: result[k] for k in expected()} == expected()
    server.faults[PROMPTS[0]] = [("json", {"error": {"message": "free models are spent", "code": "x"}})] * 3
    with pytest.raises(ServerFailing, match=r"not as OpenAI's protocol does \(free models are spent\)"):
        exam(temperature=0.5).ask()
    server.faults[PROMPTS[0]] = [("json", {"error": {"message": "You are poor", "code": "402"}})]
    with pytest.raises(ServerRefused, match=r"money is spent \(402: You are poor\)"):
        exam(temperature=0.5).ask()


def test_answers_without_text_are_empty_ones_and_stop_nothing(exam, server):
    null = {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}
    for prompt in RIGHT[:4]:
        server.faults[prompt] = [("json", null)] * 3
    result, _ = exam(limits=LimitsConfig(concurrency=1, backoff=0.01)).ask()
    assert (result["unanswered"], result["right"]) == (0, expected()["right"] - 4)


def test_a_server_that_has_answered_is_not_called_a_stranger(exam, server):
    for prompt in PROMPTS[10:]:
        server.faults[prompt] = ["no choices"] * 3
    with pytest.raises(ServerFailing, match=r"keeps failing, after 2 retries with: JSON without a message") as caught:
        exam(limits=LimitsConfig(concurrency=1, backoff=0.01)).ask()
    assert "--base-url" not in str(caught.value)


def test_answers_of_odd_shapes_and_numbers_are_no_traceback(exam, server):
    server.faults[PROMPTS[3]] = [("json", {"choices": [[]]}), ("json", {"choices": 7}), ("json", {"choices": [5]})]
    with pytest.raises(ServerFailing, match="1 of 40 problems got no answer"):
        exam(kind="completion").ask()
    usage = {"prompt_tokens": 10**400, "completion_tokens": 3}
    choice = {"message": {"content": "1"}, "finish_reason": "stop"}
    server.faults[PROMPTS[3]] = [("json", {"choices": [choice], "usage": usage})]
    result, _ = exam(limits=LimitsConfig(price_input=1, price_output=1)).ask()
    assert 0 < result["cost"] < 0.1
    assert result["uncounted"] == 1


def test_the_words_for_faults_without_any(exam, server):
    server.faults[PROMPTS[0]] = [("json", {})]
    server.faults[PROMPTS[1]] = [(429, {}, {})]
    said = []
    exam().ask(tell=said.append)
    assert said == ["JSON without choices in it: trying again", "429: Too Many Requests: trying again"]
    for prompt in PROMPTS:
        server.faults[prompt] = [(307, {"Location": "/v1/chat/completions"})] * 30
    with pytest.raises(ServerFailing, match=r"sends requests round in circles.*is --base-url right"):
        exam(limits=LimitsConfig(retries=0), temperature=0.5).ask()


def test_answers_that_were_never_whole_are_asked_again(exam, server, tmp_path):
    """Files of earlier versions hold them as answers."""
    exam().ask()
    path = tmp_path / "answers.jsonl"
    rows = [row | {"text": "", "finish": None, "fault": "a half answer"} for row in lines(path)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result, _ = exam().ask()
    assert (result["asked_now"], result["right"]) == (40, expected()["right"])


def test_a_server_that_asks_for_a_pause_gets_it_from_everybody(exam, server):
    server.delay = 0.02
    server.faults[PROMPTS[8]] = [(429, {"Retry-After": "0.6"})]
    exam(limits=LimitsConfig(concurrency=2, backoff=0.01)).ask()
    gaps = [b - a for a, b in zip(server.times, server.times[1:], strict=False)]
    assert max(gaps) > 0.5


def test_a_pause_of_hours_is_not_waited_for(exam, server):
    server.faults[PROMPTS[0]] = [(429, {"Retry-After": "7200"})]
    with pytest.raises(ServerFailing, match="asks to wait 7,200 s"):
        exam().ask()


def test_what_cannot_pass_stops_at_once_with_one_clear_line(exam, server, tmp_path, monkeypatch):
    def stops(error, *says, after=1, **request):
        server.asked.clear()
        with pytest.raises(error) as caught:
            exam(path=tmp_path / "new.jsonl", **request).ask()
        for part in says:
            assert part in str(caught.value)
        assert KEY not in str(caught.value)
        assert sum(server.asked.values()) == after

    stops(ServerRefused, "does not know the model 'missing'", "404", "it has adder-large, adder-small", model="missing")
    for prompt in PROMPTS:
        server.faults[prompt] = [400]
    # Two, as one may have been refused for what it says.
    stops(ServerRefused, "cannot use the request (400: told to fail Bearer [key])", after=2)
    server.faults.clear()
    server.faults[PROMPTS[0]] = [(429, {}, {"message": "You are poor", "code": "insufficient_quota"})]
    stops(ServerRefused, "money is spent", "You are poor")
    server.key = "another"
    stops(ServerRefused, "refuses the key in OPENAI_API_KEY (401)")
    monkeypatch.delenv("OPENAI_API_KEY")
    stops(ServerRefused, "refuses a request without a key (OPENAI_API_KEY)")


def test_a_server_that_is_not_there_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with Endpoint(EndpointConfig(base_url=url)) as endpoint:
        started = time.monotonic()
        with pytest.raises(ServerFailing, match=r"cannot be reached .*is the server running"):
            HostedExam(endpoint, RequestConfig(model="m"), PROBLEMS, FORMAT, tmp_path / "a.jsonl").ask()
    assert time.monotonic() - started < 6
    assert not (tmp_path / "a.jsonl").exists()


def test_an_outage_stops_with_what_is_kept_and_is_never_scored(exam, server):
    for prompt in PROMPTS[10:]:
        server.faults[prompt] = [500] * 50
    limits = LimitsConfig(concurrency=4, retries=1, backoff=0.01)
    with pytest.raises(ServerFailing, match=r"keeps failing, after 1 retry with: 500.*; 10 of 40 answers are kept"):
        exam(limits=limits).ask()
    server.faults.clear()
    server.asked.clear()
    result, _ = exam(limits=limits).ask()
    assert {k: result[k] for k in expected()} == expected()
    assert set(server.asked) == set(PROMPTS[10:])


def test_a_cursed_prompt_is_named_or_counted_as_wrong_but_only_when_told(exam, server):
    server.faults[PROMPTS[5]] = [500] * 50
    limits = LimitsConfig(concurrency=4, retries=1, backoff=0.01)
    with pytest.raises(ServerFailing, match=r"1 of 40 problems got no answer.*--unanswered-are-wrong"):
        exam(limits=limits).ask()
    result, _ = exam(limits=limits, lenient=True).ask()
    assert result["unanswered"] == 1
    assert result["right"] == expected()["right"] - 1
    assert result["count"] == 40


def test_newer_models_get_the_bound_under_its_new_name(exam, server):
    refusal = {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}
    server.faults[PROMPTS[0]] = [(400, {}, refusal)]
    result, _ = exam(max_tokens=33).ask()
    assert {k: result[k] for k in expected()} == expected()
    assert server.bodies[0]["max_tokens"] == 33
    assert all(body["max_completion_tokens"] == 33 and "max_tokens" not in body for body in server.bodies[1:])


def test_instruction_and_examples_are_messages_or_text_in_front(exam, server):
    shots = [("1 + 2 =", " 3###"), ("4 + 4 =", " 8###")]
    exam(instruction="Add.", shots=shots, body={"top_k": 1}).ask()
    body = server.bodies[0]
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert body["messages"][0]["content"] == "Add."
    assert body["messages"][2]["content"] == " 3###"
    assert body["top_k"] == 1
    server.answer = lambda prompt: " 9###"
    exam(PROBLEMS[:1], instruction="Add.\n", shots=shots, kind="completion").ask()
    assert server.bodies[-1]["prompt"] == "Add.\n1 + 2 = 3###4 + 4 = 8###" + PROMPTS[0]
    with pytest.raises(Exception, match="body cannot set model"):
        RequestConfig(model="m", body={"model": "other"})


def test_the_same_examples_as_pairs_and_as_text():
    dataset = make_dataset(DataConfig(num_examples=500, num_test=100))
    for wrong in (False, True):
        pairs = exemplar_pairs(dataset, 3, 1, wrong)
        assert "".join(prompt + completion for prompt, completion in pairs) == exemplars(dataset, 3, 1, wrong)


# --- reading ------------------------------------------------------------------------------------------------------


@pytest.fixture
def read(exam, server, tmp_path):
    """What is read where the model writes just this for 100+207."""
    return lambda text, finish="stop", **request: ask_one(exam, server, tmp_path / "one.jsonl", text, finish, **request)


def ask_one(exam, server, path, text, finish, **request):
    server.answer = lambda prompt: text
    if finish != "stop":
        server.faults[PROMPTS[0]] = [finish]
    path.unlink(missing_ok=True)
    result, report = exam(PROBLEMS[:1], path=path, **request).ask()
    return "right" if result["right"] else "unread" if result["unreadable"] else report.failures[0]["read"]


def test_an_answer_counts_when_the_model_ended_it(read):
    assert read(" 3 0 7###") == "right"
    assert read(" 3 0 7") == "right"  # its own end in place of the mark
    assert read(" 3 0 8###") == "308"
    assert read(" 3 0 7", finish="length") == "unread"
    assert read("307") == "unread"  # not how the format writes it


@pytest.mark.parametrize("finish", ["eos_token", "STOP", "end_turn", "stop_sequence"])
def test_servers_have_many_words_for_an_end(read, server, finish):
    server.finish = finish
    assert read(" 3 0 7###") == "right"
    assert read(" 3 0 7") == "right"


@pytest.mark.parametrize("finish", ["LENGTH", "max_tokens", "content_filter", "tool_calls"])
def test_and_a_few_for_no_end(read, server, finish):
    server.finish = finish
    assert read(" 3 0 7") == "unread"


def test_white_space_around_a_chats_answer_is_the_templates(read):
    assert read("3 0 7") == "right"
    assert read("3 0 7", kind="completion") == "unread"
    plain = make_format("plain")
    assert read("307", format=plain) == "right"
    assert read("\n307 ", format=plain) == "unread"  # cut at the newline that it began with
    assert read("\n307 ", format=plain, send_stop=False) == "right"


def test_only_what_follows_a_mark_is_read_where_that_is_wanted(read, server):
    thought = "<think>9 9 9###</think> 3 0 7"
    assert read(thought, send_stop=False) == "unread"
    assert read(thought, answer_after="</think>") == "right"
    assert "stop" not in server.bodies[-1]
    assert read("<think>hmm", answer_after="</think>") == "unread"


def test_a_stop_sequence_is_sent_only_where_it_cannot_come_early(read, server):
    scratchpad = make_format("detailed_scratchpad")
    right = scratchpad.write(PROBLEMS[0]).completion
    assert read(right, format=scratchpad) == "right"
    assert "stop" not in server.bodies[-1]
    hosted = make_format("hosted_detailed_scratchpad")
    assert read(hosted.write(PROBLEMS[0]).completion, format=hosted) == "right"
    assert server.bodies[-1]["stop"] == ["###"]


# --- the file of answers ------------------------------------------------------------------------------------------


def test_a_torn_last_line_is_asked_again(exam, server, tmp_path):
    first, _ = exam().ask()
    path = tmp_path / "answers.jsonl"
    whole = path.read_bytes()
    for torn, asked in ((1, 0), (3, 1), (60, 1)):  # a line that only lost its newline is whole
        path.write_bytes(whole[:-torn])
        server.asked.clear()
        again, _ = exam().ask()
        assert found(again) == found(first)
        assert sum(server.asked.values()) == asked
        assert len(Answers(path).known) == 40
        assert path.read_bytes().endswith(b"}\n")
        assert {row["key"] for row in lines(path)} == set(Answers(path).known)  # every line is JSON again
    path.write_bytes(whole[:-1])
    exam(temperature=0.5).ask()
    assert len(Answers(path).known) == 80
    path.write_bytes(whole[:5])
    assert Answers(path).torn == 1


def test_another_question_has_another_key(exam, server):
    exam().ask()
    for number, other in enumerate(
        [{"model": "adder-large"}, {"temperature": 0.5}, {"max_tokens": 99}, {"seed": 1}, {"kind": "completion"}], 2
    ):
        exam(**other).ask()
        assert sum(server.asked.values()) == 40 * number
    assert exam().estimate().requests == 0


def test_more_or_fewer_problems_do_not_change_what_was_asked(exam, server, tmp_path):
    long = read_problems([f"{'9' * 30}+1"], "here")
    exam(PROBLEMS[:5]).ask()
    result, _ = exam([*PROBLEMS[:5], *long]).ask()
    assert result["asked_now"] == 1
    assert server.bodies[0]["max_tokens"] < server.bodies[-1]["max_tokens"] == result["max_tokens"]
    assert exam(PROBLEMS[2:3]).estimate().requests == 0


def test_answers_that_were_kept_with_the_bound_in_their_key_are_found(exam, server, tmp_path):
    examples = [FORMAT.write(problem) for problem in read_problems(["100+207", "5+5"], "here")]
    request = Request(RequestConfig(model="m"), FORMAT, examples)
    assert request.earlier_key("http://127.0.0.1:8000/v1", PROMPTS[0]) == "d221199d6904f7b4d696283e3ef290a1"
    first, _ = exam().ask()
    path = tmp_path / "answers.jsonl"
    names = {row["prompt"]: exam()._request.earlier_key(server.url, row["prompt"]) for row in lines(path)}
    rows = [row | {"key": names[row["prompt"]]} for row in lines(path)]
    assert not {row["key"] for row in lines(path)} & {*names.values()}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    again, _ = exam().ask()
    assert again["asked_now"] == 0
    assert found(again) == found(first)


def test_a_question_that_occurs_twice_is_asked_once(exam, server):
    result, _ = exam([*PROBLEMS, *PROBLEMS]).ask()
    assert result["count"] == 80
    assert sum(server.asked.values()) == 40


def test_a_file_of_something_else_is_left_alone(exam, tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("It was the best of times.\n")
    with pytest.raises(BadInput, match="line 1 is not an answer of ours"):
        exam(path=path)
    assert path.read_text() == "It was the best of times.\n"


def test_two_processes_do_not_write_one_file(exam, tmp_path):
    with Answers(tmp_path / "answers.jsonl").opened(), pytest.raises(RunMismatch, match="is being written by process"):
        exam().ask()


# --- limits -------------------------------------------------------------------------------------------------------


def test_rates_are_kept(exam, server):
    exam(PROBLEMS[:7], limits=LimitsConfig(requests_per_minute=1200)).ask()
    assert server.times[-1] - server.times[0] > 0.2  # 6 x 0.05 s, as seen from the other side
    pace = Pace(LimitsConfig(requests_per_minute=60, tokens_per_minute=600))
    assert [round(pace.reserve(tokens, 0.0), 6) for tokens in (5, 5, 30, 1)] == [0, 1, 2, 5]
    assert round(pace.reserve(1, 100.0), 6) == 0
    pace.close(107.0)
    assert round(pace.reserve(1, 102.0), 6) == 5


def test_rates_are_kept_after_a_pause_that_the_server_asked_for(exam, server):
    server.faults[PROMPTS[1]] = [(429, {"Retry-After": "0.6"})]
    exam(PROBLEMS[:9], limits=LimitsConfig(requests_per_minute=600, backoff=0.01)).ask()
    gaps = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
    assert len(gaps) == 9
    assert min(gaps) > 0.05  # 0.1 s, as seen from the other side
    assert max(gaps) > 0.5


def test_the_estimate_comes_first_and_says_how_it_was_counted(exam, server, monkeypatch):
    limits = LimitsConfig(price_input=2, price_output=10, requests_per_minute=10)
    estimate = exam(limits=limits, max_tokens=20).estimate()
    count = TokenCount()
    assert "GPT-2" in count.how
    assert estimate.input_tokens == sum(map(count, PROMPTS)) + 8 * 40
    assert estimate.output_tokens == sum(count(FORMAT.write(p).completion) for p in PROBLEMS)
    assert estimate.most_output_tokens == 800
    assert estimate.cost == pytest.approx((estimate.input_tokens * 2 + estimate.output_tokens * 10) / 1e6)
    assert estimate.most_cost == pytest.approx((estimate.input_tokens * 2 + 8000) / 1e6)
    assert estimate.least_seconds == pytest.approx(240)
    assert not server.paths

    def gone():
        raise MissingExtra("no tiktoken")

    monkeypatch.setattr("carryon.interop.hosted.costs.Gpt2.load", gone)
    upper = exam(limits=limits, max_tokens=20).estimate()
    assert upper.input_tokens == sum(map(len, PROMPTS)) + 8 * 40 > estimate.input_tokens
    assert "one token a character, an upper bound" in upper.in_words()
    assert "pip install 'carryon[bpe]'" in upper.in_words()


def test_a_cap_in_money_is_never_passed_and_says_what_the_rest_takes(exam, server):
    price = {"price_input": 1000, "price_output": 1000}
    one = (len(PROMPTS[0]) + len(adder(PROMPTS[0])) - 3) / 1000
    limits = LimitsConfig(concurrency=4, max_cost=12 * one, **price)
    with pytest.raises(
        CapReached, match=r"cap of \$.* is reached: .*the other \d+ would take about .*answers are kept"
    ):
        exam(limits=limits).ask()
    spent = sum(row["input"] + row["output"] for row in lines(exam()._answers.path)) / 1000
    assert 6 * one < spent <= 12 * one
    asked = sum(server.asked.values())
    with pytest.raises(CapReached):  # the same cap again: nothing more is spent
        exam(limits=limits).ask()
    assert sum(server.asked.values()) == asked
    result, _ = exam(limits=LimitsConfig(max_cost=1000, **price)).ask()
    assert {k: result[k] for k in expected()} == expected()
    assert result["cost"] == pytest.approx(sum(r["input"] + r["output"] for r in lines(exam()._answers.path)) / 1000)
    assert sum(server.asked.values()) == 40
    with pytest.raises(BadConfig, match="--max-cost needs --price-input and --price-output"):
        load(LimitsConfig, {"max_cost": 1})


def test_a_cap_on_requests_counts_retries(exam, server):
    server.faults[PROMPTS[0]] = [500, 500]
    with pytest.raises(CapReached, match=r"cap of 10 requests is reached.*8 of 40 answers are kept"):
        exam(limits=LimitsConfig(concurrency=3, backoff=0.01, max_requests=10)).ask()
    assert sum(server.asked.values()) == 10
    # What may have been charged without an answer counts against the money, too.
    server.faults[PROMPTS[20]] = ["cut"]
    result, _ = exam().ask()
    assert result["requests"] == 41


# --- the key ------------------------------------------------------------------------------------------------------


def test_keys_go_only_where_they_should(server, tmp_path, monkeypatch):
    def client(url, **options):
        with Endpoint(load(EndpointConfig, {"base_url": url, **options})) as endpoint:
            return endpoint.client.api_key

    assert client(server.url) == KEY
    assert client("https://api.example.org/v1") == KEY
    with pytest.raises(BadConfig, match="would go to gpu-box:8000 unencrypted") as caught:
        client("http://gpu-box:8000/v1")
    assert KEY not in str(caught.value)
    assert client("http://gpu-box:8000/v1", key_variable="OPENAI_API_KEY") == KEY
    assert client("http://gpu-box:8000/v1", key_variable="none") == "none"
    monkeypatch.setenv("OTHER_KEY", "other")
    assert client(server.url, key_variable="OTHER_KEY") == "other"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BadConfig, match="needs a key: put it into the environment variable OPENAI_API_KEY"):
        client("https://api.openai.com/v1/")
    for url in (f"https://user:{KEY}@example.org/v1", f"https://example.org/v1?key={KEY}"):
        with pytest.raises(BadConfig, match="keys come from the environment") as caught:
            load(EndpointConfig, {"base_url": url})
        assert KEY not in str(caught.value)
    with pytest.raises(BadConfig, match="--base-url 'localhost:8000' is not an address such as"):
        load(EndpointConfig, {"base_url": "localhost:8000"})


@pytest.mark.parametrize("key", ["sk-kéy", "sk-one\nsk-two", "sk one", "sk-\u200b1"])
def test_what_cannot_be_a_key_is_found_before_anything_is_sent(server, exam, tmp_path, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(BadConfig, match="the key in OPENAI_API_KEY has a space, a line break or a character") as caught:
        exam().ask()
    assert key not in str(caught.value)
    assert not server.paths
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # as read from a file
    assert exam(PROBLEMS[:1]).ask()[0]["count"] == 1


def test_a_variable_that_is_named_must_hold_a_key_and_is_not_repeated(server, monkeypatch):
    for name in ("hf_kEy1f2e3d4c", "EMPTY"):
        monkeypatch.setenv("EMPTY", "")
        config = load(EndpointConfig, {"base_url": server.url, "key_variable": name})
        with Endpoint(config) as endpoint, pytest.raises(BadConfig, match="variable that is not set") as caught:
            _ = endpoint.client
        assert name not in str(caught.value)
    with pytest.raises(BadConfig, match="takes the NAME of an environment variable") as caught:
        load(EndpointConfig, {"key_variable": KEY})
    assert KEY not in str(caught.value)


def test_a_missing_package_is_named_with_the_command_that_installs_it(exam, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"pip install 'carryon\[llm\]'"):
        exam().ask()
    assert exam().estimate().requests == 40  # an estimate needs nothing


def test_asking_needs_no_torch_and_help_no_openai():
    code = (
        "import sys, carryon.cli.hosted\n"
        "assert 'pydantic' not in sys.modules\n"
        "import carryon.interop.hosted as hosted\n"
        "hosted.Endpoint(hosted.EndpointConfig())\n"
        "print([name for name in ('torch', 'openai', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- the command --------------------------------------------------------------------------------------------------


def carryon(*arguments, cwd, key=KEY, **env):
    env = {**os.environ, "OPENAI_API_KEY": key, **env}
    env.pop("OPENAI_BASE_URL", None) if "OPENAI_BASE_URL" not in env else None
    return subprocess.run(
        [sys.executable, "-m", "carryon", "hosted", *arguments], capture_output=True, text=True, cwd=cwd, env=env
    )


def test_a_killed_evaluation_goes_on_and_ends_the_same(server, tmp_path, capsys):
    server.delay = 0.02
    path = tmp_path / "killed.jsonl"
    command = ["evaluate", "--model", "adder-small", "--base-url", server.url, "--num-test", "120"]
    process = subprocess.Popen(
        [sys.executable, "-m", "carryon", "hosted", *command, "--concurrency", "4", "--answers", path],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (path.exists() and path.read_bytes().count(b"\n") >= 40):
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    recorded = {row["prompt"] for row in lines_that_are_whole(path)}
    assert 40 <= len(recorded) < 120
    server.delay = 0

    def ask(path):
        evaluate_hosted("adder-small", base_url=server.url, num_test=120, answers=path, as_json=True)
        out, err = capsys.readouterr()
        return json.loads(out), err

    resumed, said = ask(path)
    assert f"({len(recorded)} of 120 are answered already)" in said
    assert all(server.asked[prompt] == 1 for prompt in recorded)
    assert sum(server.asked.values()) <= 120 + 4  # those on their way when it was killed
    calm, _ = ask(tmp_path / "calm.jsonl")
    assert found(resumed) == found(calm)
    assert (resumed["asked_now"], calm["asked_now"]) == (120 - len(recorded), 120)


def lines_that_are_whole(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1] if line]


def test_ctrl_c_keeps_what_came(server, tmp_path):
    server.delay = 0.05
    path = tmp_path / "hosted" / "adder-small.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "carryon", "hosted", "evaluate", "--model", "adder-small", "--base-url", server.url],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that were started in the background hand down a deaf ear to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (path.exists() and path.read_bytes().count(b"\n") >= 10):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err.endswith("what was answered is kept: the same command goes on from there\ncarryon: stopped\n")
    assert "Traceback" not in err
    # Requests on their way were given the time to come home.
    assert len(lines(path)) == sum(server.asked.values())


def test_the_command_prints_estimate_table_and_cost(server, tmp_path):
    (tmp_path / "sums.txt").write_text("128+367=495\n1+2\n" + "\n".join(p.question for p in PROBLEMS))
    command = ["evaluate", "--model", "adder-small", "--problems", "sums.txt", "--price-input", "1"]
    command += ["--price-output", "2", "--examples", "2", "--instruction", "Add.", "--failures", "wrong.jsonl"]
    env = {"OPENAI_BASE_URL": server.url}
    dry = carryon(*command, "--dry-run", cwd=tmp_path, **env)
    assert dry.returncode == 0
    assert dry.stdout.startswith("42 requests, about ")
    assert "; $0.00" in dry.stdout
    assert not server.paths
    assert not (tmp_path / "hosted").exists()
    done = carryon(*command, cwd=tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(dry.stdout)
    for part in ("sums.txt, hosted_plain", "accuracy", "digits 3", "answers could not be read", "every answer is in"):
        assert part in done.stdout
    assert len(server.bodies[0]["messages"]) == 6
    wrong = lines(tmp_path / "wrong.jsonl")
    assert [message["role"] for message in wrong[0]["messages"]] == ["system", *["user", "assistant"] * 2, "user"]
    assert wrong[0]["messages"][-1]["content"] == wrong[0]["prompt"]
    assert len(wrong) == len(lines(tmp_path / "hosted" / "adder-small.jsonl")) - int(done.stdout.split("│")[2])
    with pytest.raises(PathExists):
        evaluate_hosted("adder-small", failures=tmp_path / "wrong.jsonl")
    with pytest.raises(BadConfig, match="which model"):
        evaluate_hosted()
    assert KEY not in everything(tmp_path) + done.stdout + done.stderr


def test_the_command_names_its_options_and_counts_once(server, tmp_path, monkeypatch, capsys):
    (tmp_path / "sums.txt").write_text("\n".join(p.question for p in PROBLEMS[:6]))
    command = ["evaluate", "--model", "adder-small", "--problems", "sums.txt", "--base-url", server.url]
    server.faults[PROMPTS[1]] = [500, 500]
    server.faults[PROMPTS[2]] = ["no choices"] * 3
    server.faults[PROMPTS[3]] = ["no usage"]
    done = carryon(*command, "--unanswered-are-wrong", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "could not be read" not in done.stdout  # all that came could
    assert "1 problem got no answer and counts as wrong" in done.stdout
    said = " ".join(done.stdout.split())
    assert "10 requests now; 8 in all that were answered or may be charged" in said
    assert "of answers at most (the server did not say how many 4 requests took)" in said

    def refused(*options, command="evaluate"):
        monkeypatch.setattr(sys, "argv", ["carryon", "hosted", command, *options, "--model", "m"])
        handler = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as stopped:
            main()
        signal.signal(signal.SIGTERM, handler)
        assert stopped.value.code == 2
        return " ".join(capsys.readouterr().err.replace("│", " ").split())

    assert "--concurrency: input should be" in refused("--concurrency", "0")
    assert "--max-cost needs --price-input and --price-output" in refused("--max-cost", "1")
    assert "-3 is too small: at least 0" in refused("job", "--price", "-3", "--dry-run", command="finetune")
    assert "0 is too small: at least 0.05" in refused("job", "--poll", "0", command="finetune")
    assert "'nan' is not a number" in refused("--temperature", "nan")


def everything(folder):
    return "".join(
        str(path) + (path.read_bytes().decode("utf-8", "replace") if path.is_file() else "")
        for path in folder.rglob("*")
    )


def test_the_key_is_written_nowhere_whatever_the_server_says(server, tmp_path):
    server.answer = lambda prompt: f" the key is {KEY}###"
    for prompt in PROMPTS[:3]:
        server.faults[prompt] = [500]
    (tmp_path / "sums.txt").write_text("\n".join(p.question for p in PROBLEMS[:6]))
    command = ["evaluate", "--model", "adder-small", "--base-url", server.url, "--problems", "sums.txt"]
    done = carryon(*command, "--failures", "wrong.jsonl", cwd=tmp_path, OPENAI_LOG="debug")
    assert done.returncode == 0, done.stderr
    assert "the key is [key]" in (tmp_path / "wrong.jsonl").read_text()
    server.faults[PROMPTS[0]] = [400]
    failed = carryon(*command, "--seed", "1", cwd=tmp_path, OPENAI_LOG="debug")
    assert failed.returncode == 2
    assert "told to fail" in failed.stderr
    assert KEY not in everything(tmp_path) + done.stdout + done.stderr + failed.stdout + failed.stderr


# --- fine-tuning --------------------------------------------------------------------------------------------------

TUNING = {"model": "adder-small", "data": {"format": "hosted_plain", "num_examples": 500, "num_test": 100}}


@pytest.fixture
def tune(server, tmp_path):
    """tune() runs the folder's job from wherever it stands; its words are in tune.said."""
    endpoint = Endpoint(EndpointConfig(base_url=server.url, timeout=1.0))

    def run(folder="job", retries=8, **changes):
        config = load(TuningConfig, {"base_url": server.url, **TUNING, **changes})
        job = TuningJob.start(tmp_path / folder, config)
        limits = LimitsConfig(retries=retries, backoff=0.01)
        run.said = []
        with job.locked():
            job.submit(endpoint, limits, run.said.append)
            return job.follow(endpoint, limits, run.said.append, longest_poll=0.02)

    with endpoint:
        yield run


def test_a_job_is_uploaded_created_followed_and_evaluated(tune, server, tmp_path, capsys):
    result = tune(epochs=2, suffix="sums")
    assert (result["status"], result["model"], result["trained_tokens"]) == ("succeeded", "ft:adder-small:sums", 4321)
    train, validation = server.files.values()
    assert train["content"] == (tmp_path / "job/data/train.jsonl").read_bytes()
    assert len(train["content"].splitlines()) == 500
    assert validation["content"] == (tmp_path / "job/data/validation.jsonl").read_bytes()
    (job,) = server.jobs.values()
    assert (job["training_file"], job["validation_file"], job["suffix"]) == ("file-0", "file-1", "sums")
    assert job["hyperparameters"] == {"n_epochs": 2}
    assert [row["message"] for row in lines(tmp_path / "job/events.jsonl")] == [f"look {n} [key]" for n in (1, 2, 3)]
    assert "job ftjob-0 is running" in tune.said
    assert "look 2 [key]" in tune.said
    before = len(server.paths)
    assert tune(epochs=2, suffix="sums") == result  # known: the server is not asked
    assert len(server.paths) == before
    evaluate_hosted(job=tmp_path / "job", answers=tmp_path / "answers.jsonl", as_json=True)
    scored = json.loads(capsys.readouterr().out)
    assert (scored["model"], scored["count"], scored["kind"]) == ("ft:adder-small:sums", 100, "chat")
    asked, trained = {*server.asked}, {json.loads(x)["messages"][0]["content"] for x in train["content"].splitlines()}
    assert not asked & trained
    assert KEY not in everything(tmp_path)


def test_faults_on_the_way_make_no_second_file_and_no_second_job(tune, server):
    server.faults["GET /v1/files"] = [500, "reset"]
    server.faults["POST /v1/files"] = ["lost", 503, "cut"]
    server.faults["POST /v1/fine_tuning/jobs"] = ["lost"]
    server.faults["GET /v1/fine_tuning/jobs"] = [500]
    server.faults["GET /v1/fine_tuning/jobs/ftjob-0"] = [429, "slow", "no json", "cut"]
    server.faults["GET /v1/fine_tuning/jobs/ftjob-0/events"] = [502, "reset"]
    assert tune()["status"] == "succeeded"
    assert len(server.files) == 2
    assert len(server.jobs) == 1


def test_a_job_that_is_created_late_is_waited_for_and_not_created_again(tune, server):
    server.faults["POST /v1/fine_tuning/jobs"] = ["slow"]  # longer than the client waits
    assert tune(retries=12)["status"] == "succeeded"
    assert len(server.jobs) == 1
    assert server.paths.count("POST /v1/fine_tuning/jobs") == 1


@pytest.mark.parametrize("keeps_metadata", [True, False])
@pytest.mark.parametrize("at", ["POST /v1/files", "POST /v1/fine_tuning/jobs"])
def test_what_was_interrupted_is_found_again(tune, server, tmp_path, at, keeps_metadata):
    server.keeps_metadata = keeps_metadata
    server.faults[at] = ["lost"]
    with pytest.raises(ServerFailing):
        tune(retries=0)
    assert tune()["status"] == "succeeded"
    assert (len(server.files), len(server.jobs)) == (2, 1)


def test_a_killed_follower_goes_on_with_the_same_job(server, tmp_path, capsys):
    server.life = ["running"] * 12 + ["succeeded"]
    command = [sys.executable, "-m", "carryon", "hosted", "finetune", "job", "--model", "adder-small", "--size", "500"]
    command += ["--num-test", "100", "--poll", "0.05", "--base-url", server.url]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not any(path.endswith("events") for path in server.paths):
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finetune(tmp_path / "job", poll=0.05, as_json=True)  # the folder knows the rest
    said = capsys.readouterr()
    assert json.loads(said.out)["model"] == "ft:adder-small:sums"
    assert (len(server.files), len(server.jobs)) == (2, 1)
    assert len(lines(tmp_path / "job/events.jsonl")) == 13
    assert KEY not in everything(tmp_path) + said.out + said.err


def test_the_same_data_is_not_uploaded_twice_and_another_job_needs_another_folder(tune, server, tmp_path):
    tune()
    tune("second", epochs=3)
    assert (len(server.files), len(server.jobs)) == (2, 2)
    assert any("is at the server already, as file-0" in words for words in tune.said)
    with pytest.raises(RunMismatch, match="holds another job: model is 'adder-small', not 'adder-large'"):
        tune(model="adder-large")
    with pytest.raises(BadRun, match=r"has no job\.json"):
        TuningJob.open(tmp_path)


CREATE, LOOK = "POST /v1/fine_tuning/jobs", "GET /v1/fine_tuning/jobs/ftjob-0"


@pytest.mark.parametrize("fault", ["lost", "cut", ("done", 502), "no json"])
def test_a_job_that_is_listed_late_is_waited_for_whatever_hid_its_creation(tune, server, fault):
    server.lists_after = 0.4
    server.faults[CREATE] = [fault]
    assert tune(retries=12)["status"] == "succeeded"
    assert server.paths.count(CREATE) == len(server.jobs) == 1


def test_a_new_session_waits_too_before_it_creates_another_job(tune, server):
    server.lists_after = 0.4
    server.faults[CREATE] = [("done", 503)]
    with pytest.raises(ServerFailing, match="creating the job failed once, with: 503: Service Unavailable"):
        tune(retries=0)
    with pytest.raises(ServerFailing, match=r"does not list it yet; after 12\d s another is created, and not before"):
        tune(retries=0)
    assert tune(retries=12)["status"] == "succeeded"
    assert server.paths.count(CREATE) == len(server.jobs) == 1


def test_a_job_that_never_came_to_be_is_created_again_in_the_end(tune, server, monkeypatch):
    monkeypatch.setattr("carryon.interop.hosted.tuning._SETTLED", -0.6)  # and the second of the time limit
    server.faults[CREATE] = ["reset"]
    assert tune(retries=12)["status"] == "succeeded"
    first, *_, second = [number for number, path in enumerate(server.paths) if path == CREATE]
    assert server.paths[first + 1 : second].count("GET /v1/fine_tuning/jobs") >= 2
    assert len(server.jobs) == 1


@pytest.mark.parametrize("fault", [429, 400])
def test_a_job_that_was_surely_not_created_is_not_waited_for(tune, server, fault):
    server.faults[CREATE] = [fault]
    if fault == 400:
        with pytest.raises(ServerRefused, match="400: told to fail"):
            tune()
    assert tune()["status"] == "succeeded"
    assert server.paths.count("GET /v1/fine_tuning/jobs") == 1  # what was there before the first try
    assert not {"tried_at", "there_before"} & {*tune()}


@pytest.mark.parametrize("fault", [429, "reset"])
def test_no_folder_takes_the_job_of_another(tune, server, monkeypatch, fault):
    monkeypatch.setattr("carryon.interop.hosted.tuning._SETTLED", -0.8)
    server.keeps_metadata = False
    assert tune("a", epochs=1)["job"] == "ftjob-0"
    server.faults[CREATE] = [fault]
    assert tune("b", epochs=3, retries=12)["job"] == "ftjob-1"
    server.faults[CREATE] = [fault]
    assert tune("c", epochs=1, retries=12)["job"] == "ftjob-2"


def test_a_job_is_known_by_what_the_server_tells_or_asked_for(tune, server, tmp_path):
    server.keeps_metadata = False
    server.faults[CREATE] = ["lost"]
    with pytest.raises(ServerFailing):
        tune(retries=0, epochs=3, suffix="sums")
    ours = server.jobs["ftjob-0"]
    others = [{"hyperparameters": {"n_epochs": 1}}, {"suffix": "other"}, {"model": "another"}, {"training_file": "f"}]
    server.jobs |= {f"other-{n}": ours | {"id": f"other-{n}", **other} for n, other in enumerate(others)}
    state = tmp_path / "job/state.json"
    kept = state.read_text()
    assert tune(epochs=3, suffix="sums")["job"] == "ftjob-0"
    state.write_text(kept)
    server.jobs["twin"] = ours | {"id": "twin"}
    with pytest.raises(ServerRefused, match=r"one of these jobs, or another folder has: ftjob-0, twin; .* --adopt"):
        tune(epochs=3, suffix="sums")
    # A folder that did not note what was there before cannot know even a single one.
    del server.jobs["twin"]
    state.write_text(json.dumps({k: v for k, v in json.loads(kept).items() if k != "there_before"}))
    with pytest.raises(ServerRefused, match=r"or another folder has: ftjob-0; .* --adopt"):
        tune(epochs=3, suffix="sums")


@pytest.mark.parametrize("at", ["POST /v1/files", CREATE, LOOK])
def test_json_of_another_shape_is_no_job_and_no_file(tune, server, monkeypatch, at):
    monkeypatch.setattr("carryon.interop.hosted.tuning._SETTLED", -1.0)
    for reply in ({}, [], None, "abc", 5, {"id": 7, "status": "running"}, {"error": {"message": "boo"}}):
        server.faults[at] = [("json", reply)] * 3
        says = "boo" if isinstance(reply, dict) and "error" in reply else "without (an )?id"
        with pytest.raises(ServerFailing, match=rf"not as OpenAI's protocol does \(.*{says}.*\)"):
            tune()
        assert not server.faults[at]
    assert tune()["model"] == "ft:adder-small:sums"


def test_a_job_without_a_status_is_none_and_canceled_is_an_end(tune, server):
    server.faults[LOOK] = [("json", {"id": "ftjob-0"})] * 3
    with pytest.raises(ServerFailing, match=r"\(a job without a status\).*job ftjob-0 goes on at the server"):
        tune()
    server.life = ["canceled"]
    with pytest.raises(JobFailed, match="job ftjob-0 was cancelled"):
        tune()


def test_a_look_at_a_job_has_its_time_too(tune, server):
    server.faults[LOOK] = ["drip", "drip headers"]
    started = time.monotonic()
    assert tune()["status"] == "succeeded"
    assert time.monotonic() - started < 6


def test_a_model_is_ready_when_it_has_a_name(tune, server, monkeypatch):
    server.names_after = 2
    assert tune()["model"] == "ft:adder-small:sums"
    assert server.paths.count(LOOK) == 5
    monkeypatch.setattr("carryon.interop.hosted.tuning._MODEL_WAIT", 0.05)
    server.names_after = 1_000
    with pytest.raises(ServerFailing, match=r"job ftjob-1 has succeeded, but .* does not name its model"):
        tune("second", epochs=2)
    server.names_after = 0
    assert tune("second", epochs=2)["model"] == "ft:adder-small:sums"


def test_odd_characters_and_the_key_are_taken_out_of_all_that_a_server_says(tune, server, tmp_path):
    server.mark = f" \u2028 \ud800 {KEY}"
    server.finish = KEY
    result = tune()
    assert result["model"] == "ft:adder-small:sums \u2028 ? [key]"
    events = [words for words in tune.said if words.startswith("look")]
    assert events == [f"look {n} [key] \u2028 ? [key]" for n in (1, 2, 3)]  # each once
    evaluate_hosted(job=tmp_path / "job", answers=tmp_path / "answers.jsonl", limit=3)
    assert KEY not in everything(tmp_path)
    assert '"finish": "[key]"' in (tmp_path / "answers.jsonl").read_text()


def test_events_in_another_form_do_not_matter(tune, server):
    server.faults[f"{LOOK}/events"] = [("json", reply) for reply in ({"data": None}, [], {"data": [{"message": "hm"}]})]
    assert tune()["status"] == "succeeded"
    assert "hm" in tune.said


def test_leaving_a_job_that_has_ended_says_how(tune, server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tune()
    finetune(Path("job"), no_wait=True)
    assert capsys.readouterr().out.startswith("ft:adder-small:sums is ready: ")
    server.life = ["running"]
    started = {"model": "adder-small", "size": 500, "num_test": 100, "base_url": server.url, "epochs": 2}
    finetune(Path("second"), **started, no_wait=True)
    assert "job ftjob-1 goes on at the server" in capsys.readouterr().out
    finetune(Path("second"), no_wait=True)
    assert "job ftjob-1 goes on at the server" in capsys.readouterr().out
    server.life = ["failed"]  # which nobody here has seen
    for _ in range(2):
        with pytest.raises(JobFailed, match="line 7 is odd"):
            finetune(Path("second"), no_wait=True)


def test_a_job_of_another_model_is_not_adopted_and_other_data_is_told(tune, server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tune()
    job = {"size": 500, "num_test": 100, "base_url": server.url, "adopt": "ftjob-0"}
    with pytest.raises(RunMismatch, match="job ftjob-0 starts from adder-small, not from adder-large"):
        finetune(Path("other"), model="adder-large", **job)
    assert not Path("other").exists()
    finetune(Path("same"), model="adder-small", **job)
    assert "learns from" not in capsys.readouterr().err
    finetune(Path("larger"), model="adder-small", **job | {"size": 600})
    assert "job ftjob-0 learns from carryon-train-" in capsys.readouterr().err


def test_a_server_that_lists_no_files_is_uploaded_to_and_one_without_files_is_named(tune, server):
    server.faults["GET /v1/files"] = [404] * 9
    assert tune()["status"] == "succeeded"
    server.faults["POST /v1/files"] = [404]
    with pytest.raises(ServerRefused, match=r"does not know uploads \(POST /files\) \(404"):
        tune("second", seed=1)
    server.faults[CREATE] = [404]
    with pytest.raises(ServerRefused, match=r"does not know the model 'adder-small', or no fine-tuning \(404"):
        tune("third", seed=1)


def test_a_failed_job_is_told_in_the_servers_words_and_not_started_again(tune, server):
    server.life = ["running", "failed"]
    for _ in range(2):
        with pytest.raises(JobFailed, match=r"job ftjob-0 failed: line 7 is odd \[key\] \(invalid_training_file\)"):
            tune()
    assert len(server.jobs) == 1


def test_a_job_can_be_left_cancelled_and_adopted(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.life = ["running"]
    job = {"model": "adder-small", "size": 500, "num_test": 100}
    finetune(Path("job"), **job, price=3.0, epochs=2, dry_run=True)
    said = capsys.readouterr().out
    assert said.startswith("500 examples, about ")
    assert "for 2 epochs" in said
    assert not server.paths
    assert not Path("job").exists()
    finetune(Path("job"), **job, no_wait=True)
    assert "'carryon hosted finetune job' follows it" in capsys.readouterr().out
    with pytest.raises(BadRun, match="no finished model yet"):
        evaluate_hosted(job=Path("job"))
    with pytest.raises(BadConfig, match=r"the job in job has its settings: leave --size, --epochs out"):
        finetune(Path("job"), epochs=9, size=100)
    with pytest.raises(JobFailed, match="job ftjob-0 was cancelled: the server gives no reason"):
        finetune(Path("job"), cancel=True)
    server.life = ["succeeded"]
    server.jobs["ftjob-9"] = server.jobs["ftjob-0"] | {"id": "ftjob-9", "status": "running"}
    finetune(Path("other"), **job, adopt="ftjob-9", as_json=True)
    assert json.loads(capsys.readouterr().out)["job"] == "ftjob-9"
    assert len(server.files) == 2
    with pytest.raises(BadConfig, match="name the model to start from"):
        finetune(Path("new"))


def test_a_job_that_the_server_does_not_have_is_named_and_leaves_nothing(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ServerRefused, match="does not know the job 'ftjob-99'"):
        finetune(Path("job"), model="adder-small", base_url=server.url, adopt="ftjob-99")
    assert not list(tmp_path.iterdir())


def test_a_cancel_that_cannot_be_says_so(tune, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRun, match="new holds no job: there is nothing to cancel"):
        finetune(Path("new"), model="adder-small", base_url=server.url, cancel=True)
    assert not list(tmp_path.iterdir())
    tune()
    with pytest.raises(BadRun, match=r"job ftjob-0 has ended already \(succeeded\): there is nothing to cancel"):
        finetune(Path("job"), cancel=True)
    # Ended at the server, which nobody here has seen.
    state = json.loads(Path("job/state.json").read_text())
    Path("job/state.json").write_text(json.dumps({"files": state["files"], "job": "ftjob-0", "status": "running"}))
    with pytest.raises(BadRun, match=r"has ended already \(succeeded\)"):
        finetune(Path("job"), cancel=True)
    assert TuningJob.open(Path("job")).tuned_model == "ft:adder-small:sums"


@pytest.mark.parametrize("page", [("text/html", b"<html>Welcome</html>"), ("application/json", b"{broken")])
def test_a_server_that_does_not_speak_the_protocol_tunes_nothing(tune, server, page):
    server.page = page
    with pytest.raises(ServerFailing, match=r"the server answers, but not as OpenAI's protocol does \("):
        tune(retries=20)
    assert server.paths == ["GET /v1/files"] * 3


def test_a_data_set_made_before_is_used_as_it_is(tune, server, tmp_path):
    config = load(DataConfig, TUNING["data"])
    write_dataset(make_dataset(config, 3), tmp_path / "set", "openai_prompt")
    of_data, seed, form = config_of_dataset(tmp_path / "set")
    assert (of_data, seed, form) == (config, 3, "openai_prompt")
    changes = {"data": of_data, "seed": seed, "form": form, "data_folder": str(tmp_path / "set"), "validation": False}
    tune(**changes)
    (file,) = server.files.values()
    assert file["content"] == (tmp_path / "set/train.jsonl").read_bytes()
    made = load(TuningConfig, {"base_url": server.url, **TUNING, "seed": 3, "form": form})
    kept = load(TuningConfig, {"base_url": server.url, "model": "m", **changes})
    assert estimate_tuning(made, 3.0) == estimate_tuning(kept, 3.0)
    chat = estimate_tuning(made.model_copy(update={"form": "openai"}), 3.0)
    assert chat.tokens == estimate_tuning(made, 3.0).tokens + 16 * chat.examples  # what marks two messages
    (tmp_path / "set/train.jsonl").write_text("{}\n")
    with pytest.raises(CarryonError, match="is not what its manifest says"):
        tune("third", **changes)
    write_dataset(make_dataset(config, 3), tmp_path / "text", "txt")
    with pytest.raises(Unsupported, match="carryon data make --as openai"):
        config_of_dataset(tmp_path / "text")


def test_options_that_would_be_passed_over_are_refused(tune, server, tmp_path, monkeypatch):
    tune()
    for given in ({"operation": "add"}, {"digits": 5}, {"format": "plain"}, {"split_seed": 0}, {"spaces": True}):
        (name,) = given
        with pytest.raises(BadConfig, match=f"--job .* says which problems: leave --{name.replace('_', '-')} out"):
            evaluate_hosted(job=tmp_path / "job", **given)
    with pytest.raises(BadConfig, match="--data says which problems: leave --operation, --size out"):
        finetune(tmp_path / "new", model="m", data=tmp_path / "job/data", operation="add", size=7)


def test_failures_are_refused_before_and_written_after_all_else(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for path, says in (("nowhere/f.jsonl", "make the folder nowhere first"), (".", "is a folder: name a file")):
        with pytest.raises(BadInput, match=says):
            evaluate_hosted("adder-small", base_url=server.url, failures=Path(path), force=True)
    assert not server.paths
    server.answer = lambda prompt: "\ud800 no"  # half a character
    Path("sums.txt").write_text(PROBLEMS[0].question)
    evaluate_hosted("adder-small", base_url=server.url, problems=Path("sums.txt"), failures=Path("wrong.jsonl"))
    out = capsys.readouterr().out
    assert "1 answer could not be read and counts as wrong" in out
    assert "? no" in Path("wrong.jsonl").read_text()


def test_lines_of_answers_that_cannot_be_read_are_told(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("sums.txt").write_text(PROBLEMS[0].question)

    def ask():
        evaluate_hosted("adder-small", base_url=server.url, problems=Path("sums.txt"), answers=Path("a.jsonl"))
        return capsys.readouterr().err

    assert "cannot be read" not in ask()
    Path("a.jsonl").write_bytes(Path("a.jsonl").read_bytes()[:-20])
    assert "1 line of the answers' file cannot be read, as a kill leaves them: those are asked again" in ask()
    assert "cannot be read" not in ask()


# --- a real model behind a real server ----------------------------------------------------------------------------

LEARNT = read_problems(["12+34", "50+49", "7+8", "60+11"], "here")
ASKED = [*LEARNT, *read_problems(["1+1", "98+99", "33+21", "5+72", "44+44", "10+90"], "here")]


def make_model(folder):
    """A Llama of 18,000 parameters that knows four sums by heart, as a Hugging Face folder."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.set_num_threads(1)
    torch.manual_seed(0)
    # The letters are for transformers, which tries its stop strings on them.
    vocabulary = {character: number for number, character in enumerate("\x00 #+0123456789=abcdef")}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="\x00"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    characters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters, eos_token="\x00", pad_token="\x00")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    texts = tokenizer([FORMAT.write(problem).text for problem in LEARNT], return_tensors="pt", padding=True)
    labels = texts["input_ids"].masked_fill(texts["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(150):
        loss = model(input_ids=texts["input_ids"], attention_mask=texts["attention_mask"], labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The model here, and the address where `transformers serve` serves it."""
    folder = tmp_path_factory.mktemp("served") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("HF_HOME", str(folder.parent / "home"))
        model, tokenizer = make_model(folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [Path(sys.executable).with_name("transformers"), "serve", folder, "--device", "cpu"]
        with open(folder.parent / "log", "w") as log:
            process = subprocess.Popen(
                [*map(str, command), "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log
            )
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, (folder.parent / "log").read_text()
                assert time.monotonic() < deadline, (folder.parent / "log").read_text()
                time.sleep(0.1)
        yield model, tokenizer, str(folder), f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(10)


def written_here(model, tokenizer, prompt, max_tokens):
    inputs = tokenizer(prompt, return_tensors="pt")
    ids = model.generate(
        inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        max_new_tokens=max_tokens,
        do_sample=False,
        stop_strings=["###"],
        tokenizer=tokenizer,
    )
    return tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


@pytest.mark.parametrize("kind", ["completion", "chat"])
def test_a_real_model_behind_a_real_server_is_asked_as_it_would_be_here(served, tmp_path, monkeypatch, kind):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model, tokenizer, name, url = served
    path = tmp_path / "answers.jsonl"
    with Endpoint(EndpointConfig(base_url=url)) as endpoint:
        exam = HostedExam(endpoint, RequestConfig(model=name, kind=kind, max_tokens=14), ASKED, FORMAT, path)
        result, _ = exam.ask()
    texts = {row["prompt"]: row["text"] for row in lines(path)}
    here = {prompt: written_here(model, tokenizer, prompt, 14) for prompt in texts}
    assert len(here) == len(ASKED)
    assert texts == here
    local = evaluate(ASKED, FORMAT, lambda prompts: [here[prompt] for prompt in prompts]).as_dict()
    assert {name: result[name] for name in local} == local
    assert result["right"] >= len(LEARNT)
    assert result["right"] < len(ASKED)
    assert result["input_tokens"] == sum(map(len, texts))


def test_what_a_real_server_says_of_an_unknown_model_is_passed_on(served, tmp_path):
    *_, url = served
    with Endpoint(EndpointConfig(base_url=url)) as endpoint, pytest.raises(ServerRefused, match="Server is pinned to"):
        HostedExam(endpoint, RequestConfig(model="other"), ASKED, FORMAT, tmp_path / "a.jsonl").ask()
