"""From evidence to one verdict per attempt, and what people see, say and measure of it.

Rooms, in the order in which evidence walks through them:

- `collectors`, `collecting`: reading clusters; what is asked of sources for an attempt, when, and what came. `sources`:
  whether they can be trusted to speak. `upload`: incidents that people bring.
- here: what is stored (`record`), the queue of what is owed (`owed`, `lease`, `waking`), conclusions (`conclude`), what
  pages and API share.
- `overview`, `listing`, `verdict_page`, `logs`, `fleet`, `rulebook`, `quality`: where people look.
- `people`: what a person keeps and is told.
- `bench`: made-up stores and how fast pages are over them.
"""
