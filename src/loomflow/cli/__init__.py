"""The command line: `loomflow demo`, `chat`, `inject` and `memory`. Each module is a command or what commands share."""
