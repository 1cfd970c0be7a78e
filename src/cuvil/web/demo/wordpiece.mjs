// BERT's tokens of a text, in lower case: words and punctuation, cut into the longest pieces of the
// vocabulary. As in "BERT: Pre-training of Deep Bidirectional Transformers", 2018, and its code.

const LONGEST_WORD = 100;
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}]/u;
const CHINESE = /[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u{20000}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u;

export class WordPiece {
  /** `vocabulary` is the text of vocab.txt: a piece a line. */
  constructor(vocabulary) {
    this.numbers = new Map(vocabulary.split("\n").map((line, i) => [line.trimEnd(), i]));
    [this.start, this.end, this.unknown] = ["[CLS]", "[SEP]", "[UNK]"].map((p) =>
      this.numbers.get(p),
    );
  }

  /** Numbers of a text's tokens, with those that begin and end it; `most` at most. */
  encode(text, most = 128) {
    const pieces = wordsOf(text).flatMap((word) => this.cut(word));
    return [this.start, ...pieces.slice(0, most - 2), this.end];
  }

  cut(word) {
    const letters = Array.from(word),
      found = [];
    if (letters.length > LONGEST_WORD) return [this.unknown];
    for (let from = 0; from < letters.length;) {
      let to = letters.length,
        number;
      for (; to > from; --to) {
        number = this.numbers.get((from ? "##" : "") + letters.slice(from, to).join(""));
        if (number !== undefined) break;
      }
      if (to === from) return [this.unknown];
      found.push(number);
      from = to;
    }
    return found;
  }
}

function wordsOf(text) {
  const plain = text.replace(/[\t\n\r]/g, " ").replace(/[\p{Cc}\p{Cf}\ufffd]/gu, "");
  const lower = plain
    .toLowerCase()
    .normalize("NFD")
    .replace(/\p{Mn}/gu, "");
  const words = [""];
  for (const letter of lower) {
    if (/\s/u.test(letter)) words.push("");
    else if (PUNCTUATION.test(letter) || CHINESE.test(letter)) words.push(letter, "");
    else words[words.length - 1] += letter;
  }
  return words.filter(Boolean);
}
