import pytest

pytest.register_assert_rewrite("tests.engine.scenes", "tests.engine.oracle")
