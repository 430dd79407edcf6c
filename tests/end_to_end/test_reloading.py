"""SIGHUP and `dittofs reload`: shares come, change and go while others are in use."""

import os
import signal
from pathlib import Path

import pytest

from dittofs.client.nfs3 import Nfs3Error
from dittofs.protocols.nfs3.types import ACCESS3_MODIFY, nfsstat3
from tests.end_to_end.control import Rest, until
from tests.end_to_end.server_process import EMBEDDED, ServerProcess

pytestmark = pytest.mark.slow

SHARES = """
[stores.second]
kind = "embedded"
[stores.second-files]
kind = "directory"
[[shares]]
name = "/export"
squash = "none"
[[shares]]
name = "/leaving"
squash = "none"
metadata = "second"
content = "second-files"
"""


def test_shares_come_change_and_go_and_others_notice_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, config=EMBEDDED + SHARES) as server:
        staying, leaving = server.connect(), server.connect("/leaving")
        kept = staying.create(staying.root, b"kept").obj
        assert kept is not None
        leaving.create(leaving.root, b"left behind")
        for _ in range(3):  # so that the answers are remembered, which must not outlast the rules they stand on [NFS-4]
            leaving.getattr(leaving.root)
            assert staying.access(kept, ACCESS3_MODIFY).access == ACCESS3_MODIFY
        before = server.config_file.read_text()
        text = before.replace('"/leaving"', '"/coming"').replace('"second"', '"third"')
        text = text.replace('"second-files"', '"files"') + '[stores.third]\nkind = "memory"\n'
        server.config_file.write_text(text)
        done = Rest(server).post("/reload")
        assert (done["added"], done["removed"], done["changed"]) == (["/coming"], ["/leaving"], [])
        staying.write(kept, 0, b"the connection lives on")
        with pytest.raises(Nfs3Error) as stale:
            leaving.getattr(leaving.root)
        assert stale.value.status is nfsstat3.NFS3ERR_STALE
        with server.connect("/coming") as coming:
            coming.create(coming.root, b"new")

        server.config_file.write_text(text.replace('name = "/export"', 'name = "/export"\nread_only = true'))
        os.kill(server.pid, signal.SIGHUP)
        until(lambda: Rest(server).get("/shares/export")["read_only"])
        with pytest.raises(Nfs3Error) as refused:
            staying.create(staying.root, b"too late")
        assert refused.value.status is nfsstat3.NFS3ERR_ROFS
        assert staying.access(kept, ACCESS3_MODIFY).access == 0
        assert staying.read(kept, 0, 100).data == b"the connection lives on"

        server.config_file.write_text(before)
        back = Rest(server).post("/reload")
        assert (back["added"], back["removed"], back["changed"]) == (["/leaving"], ["/coming"], ["/export"])
        assert leaving.lookup(leaving.root, b"left behind")
        staying.transport.close()
        leaving.transport.close()
        assert server.terminate() == 0


def test_a_configuration_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.connect() as client:
        good = server.config_file.read_text()
        server.config_file.write_text(good + '[[shares]]\nname = "/x"\nmetadata = "nothing"\n')
        refused = Rest(server).ask("/api/v1/reload", {})
        assert refused.status == 409
        assert "no such store" in refused.value["error"]
        server.config_file.write_text(good + '[limits]\nudp = false\n[stores.bad]\nkind = "no.such:Module"\n')
        assert Rest(server).post("/reload")["ignored"] == ["limits"]
        broken = good + '[stores.bad]\nkind = "no.such:Module"\n[[shares]]\nname = "/x"\nmetadata = "bad"\n'
        server.config_file.write_text(broken)
        refused = Rest(server).ask("/api/v1/reload", {})
        assert refused.status == 409
        assert "no.such" in refused.value["error"]
        os.kill(server.pid, signal.SIGHUP)
        until(lambda: "the configuration was not taken up" in server.log())
        client.getattr(client.root)
        assert [share["name"] for share in Rest(server).get("/shares")["shares"]] == ["/export"]
