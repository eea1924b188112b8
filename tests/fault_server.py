"""A server on loopback that speaks OpenAI's protocol and misbehaves as it is told."""

import gzip
import json
import re
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultServer:
    """`answer(prompt)` is what its model writes; `faults[prompt]` what goes wrong, first come first served.

    `faults["POST /v1/files"]` and the like do the same for the other requests. A fault is a word, as below, a status
    with or without headers and an error, ("json", x) for x in place of the answer, or ("done", status): the request is
    granted, and its answer lost in a gateway.
    """

    def __init__(self, answer=lambda prompt: "", key=None, delay=0.0):
        self.answer, self.key, self.delay = answer, key, delay
        self.faults = defaultdict(list)
        self.asked, self.times, self.bodies, self.paths = Counter(), [], [], []
        self.at_once = self.most_at_once = 0
        self.files, self.jobs, self.events = {}, {}, defaultdict(list)
        self.life = ["validating_files", "running", "succeeded"]
        """What a job's status becomes, one look after the other."""
        self.keeps_metadata = True
        self.lists_after = 0.0
        """Seconds until a new job is among those listed."""
        self.names_after = 0
        """Looks at a job that succeeded until its model has a name."""
        self.finish, self.mark = "stop", ""
        """Why the model stopped; and what is part of ids, names and messages."""
        self.page = None
        """What every request gets in place of an answer: a type and its content."""
        self.lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()

    # --- what the model says ----------------------------------------------------------------------------------------

    def complete(self, kind, body, fault):
        prompt = body["prompt"] if kind == "completion" else body["messages"][-1]["content"]
        text, finish = self.answer(prompt), self.finish
        for mark in body.get("stop") or ():
            text = text.partition(mark)[0]
        if fault == "length":
            text, finish = text[:2], "length"
        if fault == "empty":
            text = ""
        if fault == "no finish":
            text, finish = text[:2], None
        if fault == "filtered":
            text, finish = None, "content_filter"
        inside = {"text": text} if kind == "completion" else {"message": {"role": "assistant", "content": text}}
        answer = {"model": body["model"] + "-0613", "choices": [{"index": 0, "finish_reason": finish, **inside}]}
        answer["usage"] = {"prompt_tokens": len(prompt), "completion_tokens": len(text or "")}
        if fault == "no usage":
            del answer["usage"]
        if fault == "no choices":
            answer["choices"] = []
        return answer

    # --- files and jobs ---------------------------------------------------------------------------------------------

    def manage(self, method, path, raw):
        parts = path.removeprefix("/v1/").partition("?")[0].split("/")
        match method, parts:
            case "POST", ["files"]:
                name = re.search(rb'filename="([^"]+)"', raw)[1].decode()
                content = raw.split(b'filename="')[1].split(b"\r\n\r\n", 1)[1].split(b"\r\n--")[0]
                file = {
                    "id": f"file-{len(self.files)}{self.mark}",
                    "object": "file",
                    "bytes": len(content),
                    "filename": name,
                }
                file |= {"purpose": "fine-tune", "status": "processed", "created_at": 1}
                self.files[file["id"]] = file | {"content": content}
                return file
            case "GET", ["files"]:
                return _listed([{k: v for k, v in file.items() if k != "content"} for file in self.files.values()])
            case "GET", ["files", name]:
                return {k: v for k, v in self.files[name].items() if k != "content"} if name in self.files else None
            case "POST", ["fine_tuning", "jobs"]:
                asked = json.loads(raw)
                job = {"id": f"ftjob-{len(self.jobs)}", "object": "fine_tuning.job", "created_at": 2, "looks": 0}
                job["born"] = time.monotonic()
                job |= {"validation_file": None, "status": "queued", "error": None, "fine_tuned_model": None, **asked}
                if not self.keeps_metadata:
                    job["metadata"] = None
                self.jobs[job["id"]] = job
                return job
            case "GET", ["fine_tuning", "jobs"]:
                known = time.monotonic() - self.lists_after
                return _listed([job for job in self.jobs.values() if job["born"] <= known])
            case "GET", ["fine_tuning", "jobs", name]:
                return self._look(self.jobs[name]) if name in self.jobs else None
            case "GET", ["fine_tuning", "jobs", name, "events"]:
                return _listed(self.events[name][::-1])
            case "POST", ["fine_tuning", "jobs", name, "cancel"]:
                if self.jobs[name]["status"] != "succeeded":
                    self.jobs[name] |= {"status": "cancelled"}
                return self.jobs[name]
            case "GET", ["models"]:
                return _listed([{"id": name, "object": "model"} for name in ("adder-large", "adder-small")])
        return None

    def _look(self, job):
        if job["status"] != "cancelled":
            job["status"] = self.life[min(job["looks"], len(self.life) - 1)]
        job["looks"] += 1
        event = {
            "id": f"event-{job['looks']}{self.mark}",
            "object": "fine_tuning.job.event",
            "level": "info",
            "created_at": 3,
        }
        self.events[job["id"]].append(event | {"message": f"look {job['looks']} {self.key}{self.mark}"})
        if job["status"] == "succeeded" and job["looks"] >= len(self.life) + self.names_after:
            job |= {"fine_tuned_model": f"ft:{job['model']}:sums{self.mark}", "trained_tokens": 4321}
        if job["status"] == "failed":
            job["error"] = {"code": "invalid_training_file", "message": f"line 7 is odd {self.key}", "param": None}
        return job


def _listed(rows):
    return {"object": "list", "data": rows, "has_more": False}


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and bodies are sent apart: each would wait for the other's receipt

        def log_message(self, *_):
            pass

        def do_GET(self):
            self.handle_one("GET")

        def do_POST(self):
            self.handle_one("POST")

        def handle_one(self, method):
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            asks = self.path.endswith("completions")
            body = json.loads(raw) if asks else {}
            kind = "chat" if "chat" in self.path else "completion"
            name = f"{method} {self.path.partition('?')[0]}"
            if asks:
                name = body["prompt"] if kind == "completion" else body["messages"][-1]["content"]
            with server.lock:
                server.paths.append(f"{method} {self.path.partition('?')[0]}")
                if asks:
                    server.asked[name] += 1
                    server.bodies.append(body)
                    server.times.append(time.monotonic())
                fault = server.faults[name].pop(0) if server.faults[name] else None
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                self.answer(method, name, kind, body, raw, fault, asks)
            except OSError:
                self.close_connection = True  # the client has gone
            finally:
                with server.lock:
                    server.at_once -= 1

        def answer(self, method, name, kind, body, raw, fault, asks):
            if server.key is not None and self.headers.get("authorization") != f"Bearer {server.key}":
                return self.send(401, {"error": {"message": f"bad key {self.headers.get('authorization')}"}})
            if asks and body["model"] == "missing":
                return self.send(404, {"error": {"message": f"no such model {self.headers.get('authorization')}"}})
            if fault == "slow":
                time.sleep(1.5)
            time.sleep(server.delay if asks else 0)
            match fault:
                case ("json", content):
                    return self.send(200, content)
                case ("done", status):
                    with server.lock:
                        server.manage(method, self.path, raw)
                    return self.send(status, {})
                case "drip headers" | "drip error":
                    return self.drip(fault)
                case "huge error":
                    return self.send(500, b" " * 300_000)
                case "packed":
                    return self.send(200, gzip.compress(b" " * 300_000), {"content-encoding": "gzip"})
                case int():
                    return self.send(fault, {"error": {"message": f"told to fail {self.headers.get('authorization')}"}})
                case (status, headers):
                    return self.send(status, {"error": {"message": "told to fail"}}, headers)
                case (status, headers, error):
                    return self.send(status, {"error": error}, headers)
                case "reset":
                    self.close_connection = True
                    return None
            with server.lock:
                answer = server.complete(kind, body, fault) if asks else server.manage(method, self.path, raw)
            if fault == "lost":  # done, but the answer never arrives
                self.close_connection = True
                return None
            if server.page is not None:
                return self.send(200, server.page[1], {"content-type": server.page[0]})
            content = b"<html>busy</html>" if fault == "no json" else json.dumps(answer).encode()
            if fault in ("cut", "drip"):
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
                for byte in content[len(content) // 2 :] if fault == "drip" else b"":
                    time.sleep(0.1)
                    self.wfile.write(bytes([byte]))
                return None
            if answer is None:
                return self.send(404, {"error": {"message": "Not Found"}})
            return self.send(200, content)

        def drip(self, fault):
            self.close_connection = True
            self.wfile.write(b"HTTP/1.1 500 No\r\nContent-Length: 10000\r\n")
            self.wfile.write(b"X: " if fault == "drip headers" else b"\r\n")
            for _ in range(100):
                time.sleep(0.1)
                self.wfile.write(b"x")

        def send(self, status, content, headers=()):
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            for header, value in ({"content-type": "application/json"} | dict(headers)).items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(content)

    return Handler
