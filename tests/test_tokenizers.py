import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carryon import tokenizers
from carryon.config import DataConfig, load
from carryon.data import make_dataset
from carryon.errors import BadInput, MissingExtra, UnknownCharacter, UnknownName
from carryon.tokenizers import PRINTABLE_ASCII, Characters, Gpt2, gpt2_folders, make_tokenizer


@pytest.mark.parametrize(("format", "size"), [("plain", 13), ("reverse", 14), ("plain_wrapped", 14)])
def test_the_vocabulary_is_that_of_the_data(format, size):
    data = make_dataset(load(DataConfig, {"format": format, "num_examples": 500}))
    texts = [example.text for example in data.examples("train")]
    tokenizer = make_tokenizer("characters", texts)
    assert tokenizer.vocab_size == size
    ids = tokenizer.encode("".join(texts))
    assert set(ids.tolist()) == set(range(size))
    assert tokenizer.decode(ids) == "".join(texts)


def test_ascii_is_95_characters_and_the_newline():
    tokenizer = make_tokenizer("ascii")
    assert tokenizer.vocab_size == 96
    assert tokenizer.decode(tokenizer.encode(PRINTABLE_ASCII)) == PRINTABLE_ASCII


@given(st.text(min_size=1))
def test_any_text_reads_back_with_its_own_characters(text):
    tokenizer = Characters.of([text])
    ids = tokenizer.encode(text)
    # The slow way: a look-up per character.
    assert ids.tolist() == [tokenizer.vocabulary.index(char) for char in text]
    assert tokenizer.decode(ids) == text


def test_large_vocabularies_get_wider_ids():
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    ids = Characters.of([text]).encode(text)
    assert ids.dtype == np.uint16
    assert ids.tolist() == list(range(300))


@pytest.mark.parametrize("text", ["128+x", "1€", "é", "\x00", "1\t2"])
def test_a_character_outside_the_vocabulary_is_named(text):
    with pytest.raises(UnknownCharacter) as error:
        make_tokenizer("characters", ["0123456789+=\n"]).encode(text)
    assert "position" in str(error.value)
    with pytest.raises(UnknownCharacter):
        Characters.of(["日本"]).encode(text)


@pytest.mark.parametrize("ids", [[0, 3], [-1]])
def test_ids_outside_the_vocabulary_are_refused(ids):
    for tokenizer in (Characters("abc"), Characters("日本語")):
        with pytest.raises(BadInput, match="vocabulary of 3"):
            tokenizer.decode(np.array(ids))
    with pytest.raises(BadInput, match="50257"):
        make_tokenizer("gpt2").decode(np.array([50_257]))


def test_gpt2_gives_its_published_ids():
    tokenizer = make_tokenizer("gpt2")
    assert tokenizer.vocab_size == 50_257
    assert tokenizer.encode("Hello world").tolist() == [15496, 995]
    assert tokenizer.encode("128+367=495\n").tolist() == [12762, 10, 27824, 28, 33781, 198]
    assert tokenizer.encode("<|endoftext|>").tolist() != [50_256]  # text, not an instruction


@given(st.text())
def test_gpt2_reads_back(text):
    tokenizer = make_tokenizer("gpt2")
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_gpt2_without_its_files_says_where_to_put_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizers, "gpt2_folders", lambda: [tmp_path / "nowhere"])
    Gpt2.load.cache_clear()
    try:
        with pytest.raises(MissingExtra, match=r"vocab.bpe and encoder.json were not found in .*nowhere"):
            Gpt2.load()
    finally:
        Gpt2.load.cache_clear()


def test_gpt2_files_that_were_changed_are_refused(tmp_path):
    source = next(folder for folder in gpt2_folders() if (folder / "vocab.bpe").exists())
    for name in ("vocab.bpe", "encoder.json"):
        shutil.copy(source / name, tmp_path / name)
    assert Gpt2.load(tmp_path).encode("1+1").tolist() == Gpt2.load().encode("1+1").tolist()
    Gpt2.load.cache_clear()
    with open(tmp_path / "vocab.bpe", "a") as file:
        file.write("x y\n")
    with pytest.raises(BadInput, match=r"vocab\.bpe is not GPT-2's file"):
        Gpt2.load(tmp_path)


def test_a_named_folder_comes_first(monkeypatch):
    monkeypatch.setenv("CARRYON_GPT2_DIR", "/somewhere/else")
    assert gpt2_folders()[0] == Path("/somewhere/else")


def test_unknown_tokenizers_get_a_guess():
    with pytest.raises(UnknownName, match="did you mean 'characters'"):
        make_tokenizer("character")
