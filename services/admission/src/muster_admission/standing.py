"""Who stands in line, for all of its pods or for more than run."""

from muster_domain.states import Admitted, Growing, Pending, WorkloadState


def waits(state: WorkloadState) -> bool:
    """Whether it waits for quota."""
    return isinstance(state, Pending) or (
        isinstance(state, Admitted) and isinstance(state.resize, Growing)
    )


def lacks_seats(state: WorkloadState) -> bool:
    """Whether it had quota, and waits because there were no seats."""
    match state:
        case Pending(unseated=unseated):
            return unseated
        case Admitted(resize=Growing(unseated_times=times)):
            return times > 0
        case _:
            return False
