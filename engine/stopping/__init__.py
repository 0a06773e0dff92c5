"""Why a model stopped: the record, the rules and the matcher. Pure Python, no thread of its own."""
