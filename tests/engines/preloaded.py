"""What the ranks of the engine need, imported once before they are forked."""

import transformers
import transformers.distributed
import transformers.modeling_utils

import dimsolve.exec.engines.audit

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
__all__ = ["dimsolve"]
