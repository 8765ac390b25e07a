"""What every room uses: errors, the clock, durable writes, redaction, wording."""
