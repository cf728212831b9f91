"""From a verdict or an anomaly to training that moves again, a person in charge until the record says.

Rooms, in the order in which a failure walks through them:

- `progress`: how far workloads got; crashes, hangs and stragglers that are detected from it.
- here: what is proposed (`propose`, `plan`, `policy`), what stands against it (`guards` on `facts`), what people
  and time decide (`decide`), what is kept away (`exclusions`, `incidents`, `brakes`).
- `policies`: their versions, the record that promotes them, labels, simulation before a change.
- `review`: the pages and API where people decide.
- `acting` and `actuators`: the dispatcher, the schedulers, looking at what came of it.
- `goodput`: what failures cost. `ledger`: what was decided, chained. `record`: the incident as one file.
- `bench`: simulations and their figures.
"""
