"""Rolls to rows and back."""

import json
import zlib
from dataclasses import asdict, astuple

from muster_accounting.rows import Row
from muster_rating.charging import Quotas
from muster_rating.metering import Balance
from muster_rating.rollups import Holder, Roll
from muster_rating.slices import Cell, Slice
from muster_rating.windows import Window


def roll_row(roll: Roll) -> dict[str, object]:
    """All columns of a roll."""
    holders: dict[Holder, int] = {}
    slices = [[*pair, _written(of_pair, holders)] for pair, of_pair in sorted(roll.slices.items())]
    body = {"holders": [astuple(holder) for holder in holders], "slices": slices}
    return {
        "start_ms": roll.window.start_ms,
        "end_ms": roll.window.end_ms,
        "body": zlib.compress(json.dumps(body).encode()),
    }


def _written(of_pair: Slice[Holder], holders: dict[Holder, int]) -> dict[str, object]:
    return {
        "balance": asdict(of_pair.balance),
        "cells": [
            [holders.setdefault(holder, len(holders)), *astuple(cell)]
            for holder, cell in of_pair.cells.items()
        ],
        "quotas": asdict(of_pair.quotas),
        "balance_on": {node: astuple(of) for node, of in of_pair.balance_on.items()},
        "held_on": {
            node: [[holders.setdefault(holder, len(holders)), held] for holder, held in by.items()]
            for node, by in of_pair.held_on.items()
        },
        "lost_on": {
            node: [[holders.setdefault(holder, len(holders)), lost] for holder, lost in by.items()]
            for node, by in of_pair.lost_on.items()
        },
    }


def roll_of(row: Row) -> Roll:
    """The roll of a row."""
    body = json.loads(zlib.decompress(row["body"]))
    holders = [
        Holder(*fields, labels=tuple((name, value) for name, value in labels))
        for *fields, labels in body["holders"]
    ]
    found = Roll(window=Window(row["start_ms"], row["end_ms"]))
    for flavor, resource, told in body["slices"]:
        found.slices[flavor, resource] = Slice(
            balance=Balance(**told["balance"]),
            cells={holders[number]: Cell(*amounts) for number, *amounts in told["cells"]},
            quotas=Quotas(**told["quotas"]),
            balance_on={node: _balance(of) for node, of in told["balance_on"].items()},
            held_on={
                node: {holders[number]: held for number, held in by}
                for node, by in told["held_on"].items()
            },
            lost_on={
                node: {holders[number]: lost for number, lost in by}
                for node, by in told["lost_on"].items()
            },
        )
    return found


def _balance(amounts: list[int]) -> Balance:
    capacity, held, idle, reserved, unavailable, overallocated = amounts
    return Balance(
        capacity=capacity,
        held=held,
        idle=idle,
        reserved=reserved,
        unavailable=unavailable,
        overallocated=overallocated,
    )
