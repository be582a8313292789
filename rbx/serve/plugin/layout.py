"""The published file: who writes, the newest snapshot of the scheduler, and a ring of executed steps.

::

    0        HEADER    who writes, limits, sizes; written once
    4096     SEQUENCE  even: whole; odd: being written
    4160     SNAPSHOT  scalars and batches in flight of the newest snapshot, then its checksum
    8192     rows      (row_capacity, ROW_COLUMNS) int64: requests as in ``snapshot_columns``, then the id
    ...      ring      (ring_capacity,) STEP: the steps, number k at index k mod ring_capacity

A reader takes the sequence, copies, and takes it again; the checksum over scalars and rows makes that
safe where the processor reorders stores. Everything is little-endian. Whoever changes a field raises
``LAYOUT``. The module needs numpy alone, since vLLM imports it.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine.snapshot_columns import N_REQUEST, N_STEP

MAGIC = b"RBXSTATE"
LAYOUT = 1
SUFFIX = ".rbxstate"

MAX_IN_FLIGHT = 2
ID = N_REQUEST
ROW_COLUMNS = N_REQUEST + 1

PUBLISHING, STOPPED, CLOSED = 0, 1, 2

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("layout", "<u4"),
        ("request_columns", "<u4"),
        ("pid", "<i8"),
        ("pid_started", "<i8"),  # clock ticks since boot, 0 where the system does not tell
        ("data_parallel_rank", "<i8"),
        ("created_s", "<f8"),
        ("status", "<i8"),  # PUBLISHING, STOPPED after an error, CLOSED with the server
        ("errors", "<i8"),
        ("row_capacity", "<i8"),
        ("ring_capacity", "<i8"),
        ("max_num_seqs", "<i8"),
        ("max_num_batched_tokens", "<i8"),
        ("max_model_len", "<i8"),
        ("block_size", "<i8"),
        ("kv_blocks", "<i8"),
        ("chunked_prefill", "<i8"),
        ("async_scheduling", "<i8"),
        ("reserve_full_prompt", "<i8"),
        ("vllm_version", "S32"),
        ("instance_id", "S64"),
        ("model", "S256"),
        ("served_name", "S256"),
        ("error", "S512"),
    ]
)
LIMITS = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "block_size",
    "kv_blocks",
    "chunked_prefill",
    "async_scheduling",
    "reserve_full_prompt",
)

SNAPSHOT = np.dtype(
    [
        ("version", "<i8"),
        ("stamp_s", "<f8"),
        ("free_blocks", "<i8"),
        ("running", "<i8"),
        ("requests", "<i8"),  # rows that follow
        ("left_out", "<i8"),  # requests beyond the rows' capacity
        ("unmodelled", "<i8"),  # requests so far with what rbx does not model (grammars, images, ...)
        ("in_flight", "<i8"),
        ("step_start_s", "<f8", (MAX_IN_FLIGHT,)),  # NaN: not started
        ("steps", "<i8", (MAX_IN_FLIGHT, N_STEP)),
    ]
)

# What goes over the network before the rows: the file's header, the sender's clock, the scalars.
MESSAGE = np.dtype([("header", HEADER), ("now_s", "<f8"), ("snapshot", SNAPSHOT)])

# One executed step, named as in a step trace.
STEP = np.dtype(
    [
        ("number", "<i8"),
        ("start_s", "<f8"),
        ("end_s", "<f8"),
        ("decodes", "<i8"),
        ("decode_context_tokens", "<i8"),
        ("prefill_tokens", "<i8"),
        ("prefill_chunk_squared_tokens", "<i8"),
        ("prefill_cross_tokens", "<i8"),
        ("prefill_requests", "<i8"),
    ]
)

SEQUENCE_AT = 4096
STEPS_AT = SEQUENCE_AT + 8  # how many steps have been executed
CHECKSUM_AT = SEQUENCE_AT + 16
SNAPSHOT_AT = 4160
ROWS_AT = 8192


@dataclass(frozen=True)
class StateViews:
    """The parts of a file's bytes, as arrays over the same memory."""

    header: NDArray[np.void]  # (1,)
    sequence: NDArray[np.uint64]  # (1,)
    steps: NDArray[np.int64]  # (1,)
    checksum: NDArray[np.uint64]  # (1,)
    snapshot: NDArray[np.void]  # (1,)
    rows: NDArray[np.int64]  # (row_capacity, ROW_COLUMNS)
    ring: NDArray[np.void]  # (ring_capacity,)


def file_bytes(row_capacity: int, ring_capacity: int) -> int:
    """Size of a file."""
    return ring_at(row_capacity) + ring_capacity * STEP.itemsize


def ring_at(row_capacity: int) -> int:
    """Where the ring begins."""
    return ROWS_AT + row_capacity * ROW_COLUMNS * 8


def views(buffer: memoryview, row_capacity: int, ring_capacity: int) -> StateViews:
    """Arrays over ``buffer``, which has ``file_bytes`` of these capacities."""
    rows = np.frombuffer(buffer, "<i8", row_capacity * ROW_COLUMNS, ROWS_AT)
    return StateViews(
        header=np.frombuffer(buffer, HEADER, 1),
        sequence=np.frombuffer(buffer, "<u8", 1, SEQUENCE_AT),
        steps=np.frombuffer(buffer, "<i8", 1, STEPS_AT),
        checksum=np.frombuffer(buffer, "<u8", 1, CHECKSUM_AT),
        snapshot=np.frombuffer(buffer, SNAPSHOT, 1, SNAPSHOT_AT),
        rows=rows.reshape(row_capacity, ROW_COLUMNS),
        ring=np.frombuffer(buffer, STEP, ring_capacity, ring_at(row_capacity)),
    )


def checksum(snapshot: NDArray[np.void], rows: NDArray[np.int64]) -> int:
    """CRC-32 of the scalars (1,) and the rows (N, ROW_COLUMNS)."""
    return zlib.crc32(rows.view(np.uint8).data, zlib.crc32(snapshot.view(np.uint8).data))


_RANDOM_SUFFIX = re.compile(r"-[0-9a-f]{8}$")


def published_id(engine_id: str, *, suffixed: bool = True) -> int:
    """What stands for a request in a row: the first 8 bytes of BLAKE2b of its id, as a signed integer.

    To the id that came in vLLM appends a hyphen and eight random hexadecimal digits; they are left out
    of a ``suffixed`` one.
    """
    plain = _RANDOM_SUFFIX.sub("", engine_id) if suffixed else engine_id
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "little", signed=True)
