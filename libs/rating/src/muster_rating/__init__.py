"""What usage cost: facts about attempts and nodes in, cost lines out.

Owns the rules of metering and rating; knows no clock, no IO and no wire format. Usage is integers
(milli-units times milliseconds), prices are exact fractions, money is rounded once per table.

What is charged (the charging rules):

- Time counts from admission (quota posted, seats bound) until the quota came back, the seconds in
  which pods are stopped included. Quota held before there were seats is `waiting`, not charged.
- An attempt that ends in preemption is charged to its owner; what it held since it last said that
  its work is saved, or since it had seats, is shown as `lost`.
- Borrowed is what a queue holds above its nominal quota at that moment; it changes when anybody of
  the queue starts or ends, and counts against the last in: lowest priority, then latest admitted.
- A flavor with any price includes the resources that its list does not name; a flavor with none is
  unpriced, which is shown and never counted as zero.
- Capacity that nobody holds is idle while its node takes pods, and unavailable otherwise.
"""
