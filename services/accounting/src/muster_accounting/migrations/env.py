"""Where alembic enters: on the connection that it is given, in that one's transaction."""

from alembic import context

from muster_accounting import schema

context.configure(
    connection=context.config.attributes["connection"], target_metadata=schema.metadata
)
context.run_migrations()
