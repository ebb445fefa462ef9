from __future__ import annotations

import gzip
import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from batfill.base.errors import RunFailed
from batfill.workloads import archive
from batfill.workloads.swf_log import ArchiveLog, manifest
from swf_text import row

TEXT = ("; MaxProcs: 4\n" + "".join(row(i, i, 5, executable=(i * 7919) % 10007) for i in range(1, 3000))).encode()
FILE = gzip.compress(TEXT)


class Server(ThreadingHTTPServer):
    """Serves FILE, as badly as `behaviour` says for each request in turn; the last one stays."""

    def __init__(self, behaviour):
        self.behaviour = behaviour
        self.asked = 0  # requests so far
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/log.swf.gz"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        how = self.server.behaviour[min(self.server.asked, len(self.server.behaviour) - 1)]
        self.server.asked += 1
        body = {"other": b"<html>moved</html>", "too short": FILE[:-1000]}.get(how, FILE)
        if how in (404, 500):
            self.send_error(how)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + 1000 * (how == "cut off")))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(archive.time, "sleep", lambda _: None)


@pytest.fixture
def serve():
    servers = []

    def start(*behaviour):
        server = Server(behaviour)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def known(url, **fields):
    sums = {"text_sha256": hashlib.sha256(TEXT).hexdigest(), "jobs": 2999}
    return ArchiveLog(**{"name": "x", "title": "", "url": url, "processors": 4, "acknowledge": "", **sums, **fields})


def get(log, folder, **options):
    return archive.fetch(log, cache=folder / "cache", **options)


def names(folder):
    return sorted(path.name for path in (folder / "cache").iterdir())


def test_a_log_is_fetched_checked_and_kept(serve, tmp_path):
    server = serve("well")
    path, found = get(known(server.url), tmp_path)
    assert path.read_bytes() == FILE
    assert "as expected" in found
    assert names(tmp_path) == ["log.swf.gz"]
    assert get(known(server.url), tmp_path)[1].startswith("already in the cache")
    assert server.asked == 1


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("too short", "not an SWF log"),
        ("cut off", "ended early"),
        ("other", "another text"),
        (500, "the server answers 500"),
        (404, "404 (Not Found)"),
    ],
)
def test_a_server_that_goes_on_so_is_given_up_in_one_line(serve, tmp_path, how, said):
    server = serve(how)
    with pytest.raises(RunFailed) as failure:
        get(known(server.url), tmp_path)
    message = str(failure.value)
    assert said in message
    assert server.url in message
    assert "--from" in message
    assert "\n" not in message
    assert names(tmp_path) == []
    assert server.asked == (1 if how == 404 else 5)


@pytest.mark.parametrize("name", ["log.swf.gz", "log.swf"])
def test_a_local_copy_is_taken_packed_or_not(tmp_path, name):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / name).write_bytes(FILE if name.endswith("gz") else TEXT)
    path, _ = get(known("http://127.0.0.1:9/log.swf.gz"), tmp_path, local=tmp_path / "here")
    assert gzip.decompress(path.read_bytes()) == TEXT
    assert names(tmp_path) == ["log.swf.gz"]


# The manifest


@pytest.mark.parametrize("name", ["kth-sp2", "ctc-sp2", "sdsc-sp2", "sdsc-blue", "hpc2n", "cea-curie"])
def test_the_manifests_sums_are_those_of_the_logs(archive_log, name):
    log = manifest()[name]
    path = archive_log(log.file)
    assert archive.verified(log, path) == "sha256 as expected"
    assert "compressed differently" in archive.verified(replace(log, sha256="0" * 64), path)
