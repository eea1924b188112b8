"""Models behind a server that speaks OpenAI's protocol: OpenAI, vLLM, llama.cpp, Ollama, `transformers serve`, …

They are asked the same problems, and scored by the same code, as our own; and fine-tuned where the server offers that.
Needs the extra carryon[llm]. Keys come from the environment alone.
"""

from .answers import Answer, Answers
from .asking import Asker
from .costs import Estimate, TokenCount, TuningEstimate, estimate_tuning
from .endpoint import Endpoint
from .exam import HostedExam
from .faults import Fault, Reply
from .jobs import find_job
from .request import Request
from .settings import KEY_VARIABLE, OPENAI, EndpointConfig, LimitsConfig, RequestConfig, TuningConfig, config_of_dataset
from .tuning import TuningJob

__all__ = [
    "KEY_VARIABLE",
    "OPENAI",
    "Answer",
    "Answers",
    "Asker",
    "Endpoint",
    "EndpointConfig",
    "Estimate",
    "Fault",
    "HostedExam",
    "LimitsConfig",
    "Reply",
    "Request",
    "RequestConfig",
    "TokenCount",
    "TuningConfig",
    "TuningEstimate",
    "TuningJob",
    "config_of_dataset",
    "estimate_tuning",
    "find_job",
]
