"""What both halves must agree on."""
