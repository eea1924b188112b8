"""Text to put in front of a question: five kinds, five of each, after the paper's, in other words.

Those called inside are speeches of tiny Shakespeare, from the part that is trained on; the others are ours and do not
occur in it. All keep to its characters and digits, so that any model of text and arithmetic can read them. A prompt
ends as a passage does, with a blank line.
"""

from ..errors import UnknownName

TEXT_PROMPTS: dict[str, tuple[str, ...]] = {
    "short outside": (
        "good morning, all",
        "what a lovely day",
        "the kettle is on",
        "bring me the map",
        "nobody knows why",
    ),
    "short inside": (
        "JULIET:\nI'll gladly learn.",
        "ESCALUS:\nHow know you that?",
        "CAMILLO:\nI may not answer.",
        "MENENIUS:\nReturn to the tribunes.",
        "Nurse:\nWhat's this? what's this?",
    ),
    "long inside": (
        "Nurse:\nO Lord, I could have stay'd here all the night\nTo hear good counsel: O, what learning is!\n"
        "My lord, I'll tell my lady you will come.",
        "ROMEO:\nBy a name\nI know not how to tell thee who I am:\nMy name, dear saint, is hateful to myself,\n"
        "Because it is an enemy to thee;\nHad I it written, I would tear the word.",
        "GREEN:\nAlas, poor duke! the task he undertakes\nIs numbering sands and drinking oceans dry:\n"
        "Where one on his side fights, thousands will fly.\nFarewell at once, for once, for all, and ever.",
        "Lord:\nHeaven cease this idle humour in your honour!\nO, that a mighty man of such descent,\n"
        "Of such possessions and so high esteem,\nShould be infused with so foul a spirit!",
        "POLIXENES:\nDear my brother,\nLet him that was the cause of this have power\n"
        "To take off so much grief from you as he\nWill piece up in himself.",
    ),
    "numbers outside": (
        "Platform 9, the 17-45 to the coast,\nruns 12 minutes late again",
        "My house is number 83 on the hill\nThe bus I take is 26, or 7 on Sundays",
        "We rowed 3-1-3 against the tide\nand came in 58 of 60",
        "Stir 2 eggs, 150 of flour and 75 of butter,\nbake for 35 at 180",
        "Channel 4, then 11, then 4 again,\nnothing on before 20-15",
    ),
    "long outside": (
        "The tram goes round the harbour and comes back by way of the old market, where the stalls\n"
        "are folded up at noon. Nobody sells fish on Mondays, and nobody can say who began that.\n"
        "If you sit on the left you see the ships; if you sit on the right you see the bakery.",
        "Dear aunt, the parcel came on Friday and the jars had held. We ate the plums at once,\n"
        "and the rest is on the shelf beside the window, where the cat cannot get at it.\n"
        "Write soon, and tell us whether the roof was mended before the rain.",
        "A good rope is laid from left to right, then right to left, then left again,\n"
        "and each turn holds the one before it. That is all there is to it, said the maker,\n"
        "and then he talked for an hour about tar.",
        "In the library they keep the maps flat, in drawers, with a weight on every corner.\n"
        "You may look but you may not lean. The keeper has leaned on one once, as a boy,\n"
        "and to this day there is a coast that ends too soon.",
        "When the snow is deep the village is quiet, and the children hear the mill from the school.\n"
        "They are asked to write down what they hear. Most of them write: the mill.\n"
        "One of them writes: the snow.",
    ),
}
_END = "\n\n"


def text_prompt(kind: str, number: int) -> str:
    """One of them, ready to stand in front of a question; numbers count from 0."""
    if kind not in TEXT_PROMPTS:
        raise UnknownName("kind of text prompt", kind, TEXT_PROMPTS)
    prompts = TEXT_PROMPTS[kind]
    if not 0 <= number < len(prompts):
        raise UnknownName("number of a text prompt (--example-set)", number, map(str, range(len(prompts))))
    return prompts[number] + _END
