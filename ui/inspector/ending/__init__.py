"""Why a run ended, how near other ends came, and what another stop list would have done."""
