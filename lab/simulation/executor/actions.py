"""Actions on an executor's world from outside, by name: operators' actions and faults."""

from __future__ import annotations

from lab.simulation.scheduler import MS

OPERATION_WEIGHTS = {
    "submit": 22,
    "submit_all": 6,
    "change_mind": 4,
    "cancel_by_plan": 2,
    "take_over": 2,
    "stop": 5,
    "roll_back": 7,
    "roll_back_all": 3,
    "pause": 4,
    "resume": 5,
    "limit": 5,
    "relax": 2,
    "foreign_move": 4,
    "foreign_cancel": 3,
    "foreign_throttle": 3,
    "foreign_log_dir": 2,
    "half_a_day_passes": 5,
    "foreign_clears_throttles": 1,
    "topic_deleted": 1,
    "topic_made_anew": 1,
    "topic_made": 2,
    "topic_grown": 1,
    "back_to_its_log_dir": 0,
}
FAULT_WEIGHTS = {
    "executor_killed": 8,
    "executor_dies_at_something": 10,
    "executor_paused": 6,
    "executor_loses_power": 4,
    "second_executor": 4,
    "clock_jumps": 2,
    "journal_slow": 3,
    "journal_busy": 2,
    "journal_damaged": 2,
    "journal_compacted": 4,
    "executor_dies_in_a_transaction": 4,
    "broker_killed": 8,
    "broker_bounced": 4,
    "broker_paused": 5,
    "broker_slow": 4,
    "broker_hears_late": 4,
    "log_dir_fails": 3,
    "controller_lost": 5,
    "controller_forgets": 2,
    "controller_slow": 3,
    "controller_refuses": 4,
    "requests_lost": 5,
    "answers_lost": 5,
    "requests_doubled": 4,
    "cluster_unreachable": 3,
    "permission_withdrawn": 1,
    "broker_cordoned": 0,
}
ASIDE = {3: {"back_to_its_log_dir": 1}, 5: {"broker_cordoned": 1}}
"""Actions that are drawn aside, as in `simulation.actions.ASIDE`."""
PACES_US = (300 * MS, 1_000 * MS, 3_000 * MS)
