"""`python -m orin_gov` is the same program as the console script `orin-gov`."""

import sys

from orin_gov.commands import main

sys.exit(main())
