"""Which instance answers where: names are the pool's, and no server is counted twice."""

from __future__ import annotations

import pytest

from rbx.config.endpoints import Endpoints, InstanceEndpoint
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from tests.heads.pools import pool, tier


def small_pool() -> Pool:
    return pool(tier("large-a", "large", 0.03), tier("tiny-b", "tiny", 0.01))


def endpoints(urls: dict[str, str], served: dict[str, str]) -> Endpoints:
    instances = {
        each.name: InstanceEndpoint(
            url=urls.get(each.name, f"http://h:{8000 + k}/v1"), served_name=served.get(each.name)
        )
        for k, each in enumerate(small_pool().instances)
    }
    return Endpoints(instances=instances)


SAME = "http://one.example:80/v1"


@pytest.mark.parametrize("other", [SAME, "http://ONE.example/v1", "http://one.example/v1/"])
@pytest.mark.parametrize(
    ("names", "served"),
    [
        (("large-a/0", "large-a/1"), {}),
        (("large-a/0", "tiny-b/1"), {"large-a/0": "m", "tiny-b/1": "m"}),
        (("large-a/0", "tiny-b/1"), {"large-a/0": "tiny"}),
    ],
    ids=["a tier's instances", "one served name", "a served name that is another tier's model"],
)
def test_one_server_is_not_two_instances(names: tuple[str, str], served: dict[str, str], other: str) -> None:
    given = endpoints({names[0]: SAME, names[1]: other}, served)
    with pytest.raises(ConfigError, match=f"{names[0]} and {names[1]}") as caught:
        given.of(small_pool())
    assert "one.example" in str(caught.value)


def test_all_that_share_an_address_are_named() -> None:
    given = endpoints({f"{tier}/{k}": SAME for tier in ("large-a", "tiny-b") for k in range(2)}, {})
    with pytest.raises(ConfigError) as caught:
        given.of(small_pool())
    for pair in ("large-a/0 and large-a/1", "tiny-b/0 and tiny-b/1"):
        assert pair in str(caught.value)


def test_a_server_of_several_models_is_an_instance_of_each() -> None:
    given = endpoints({"large-a/0": SAME, "tiny-b/0": SAME, "tiny-b/1": SAME}, {"tiny-b/1": "tiny-lora"})
    assert [each.url for each in given.of(small_pool())].count(SAME) == 3


@pytest.mark.parametrize(
    "other", ["https://one.example:80/v1", "http://one.example:81/v1", "http://one.example:80/b/v1"]
)
def test_other_addresses_are_other_servers(other: str) -> None:
    assert endpoints({"large-a/0": SAME, "large-a/1": other}, {}).of(small_pool())
