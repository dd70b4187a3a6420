"""What a manifest may say. Pure: no files but the schema, no clock, no environment, no sockets."""
