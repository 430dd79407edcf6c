"""The OpenAPI document tells the truth: requests made up from it get answers it describes."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.end_to_end.control import Rest
from tests.end_to_end.endpoints import endpoints
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, GRANTED, lock_world

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300)]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
EXAMPLES = 8


def test_the_document_is_kept(tmp_path: Path) -> None:
    with lock_world(tmp_path) as world:
        file = world.file()
        assert world.nlm(world.host()).lock(ALICE, file) is GRANTED
        assert world.nlm(world.host()).lock(BOB, file, block=True) is BLOCKED
        rest = Rest(world.server)
        url = endpoints(world.server)["api"] + "/api/v1/openapi.json"
        schema = schemathesis.openapi.from_url(url)
        headers = {"Authorization": f"Bearer {rest.tokens()['change']}"}
        operations = [result.ok() for result in schema.get_all_operations()]
        assert len(operations) > 20
        for operation in operations:
            exercise(operation, headers)
        assert rest.get("/live")["is_live"]
        world.nfs.getattr(world.nfs.root)


def exercise(operation: Any, headers: dict[str, str]) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        response = case.call(headers=headers)
        case.validate_response(response, checks=CHECKS)

    ask()
