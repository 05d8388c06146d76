from muster.rendering.turns import turn_lines
from muster_contracts.turns import TurnRow


def test_turns_are_shown_with_what_they_go_by() -> None:
    rows = (
        TurnRow(
            local_queue="team-a/bob",
            place=0,
            weight_milli=1000,
            consumed_milli={},
            penalty_milli={},
            updated_ms=0,
        ),
        TurnRow(
            local_queue="team-a/ann",
            place=1,
            weight_milli=2000,
            consumed_milli={"nvidia.com/gpu": 8000, "cpu": 2500},
            penalty_milli={"cpu": 100},
            updated_ms=5,
        ),
    )
    ann = "used lately 2500m cpu, 8 nvidia.com/gpu, just let in 100m cpu (weight 2)"
    assert turn_lines(rows) == [
        "turn 1   team-a/bob   used lately nothing",
        f"turn 2   team-a/ann   {ann}",
    ]
