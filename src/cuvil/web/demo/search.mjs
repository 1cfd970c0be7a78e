// Search by meaning: sentences and questions as unit vectors, which the sentence encoder gives in a
// Web Worker; the nearest vectors answer.
import { WordPiece } from "./wordpiece.mjs";

export class Search {
  static async start(onProgress) {
    const [{ load }, sentences, vocabulary] = await Promise.all([
      import("./minilm.mjs"),
      fetch("sentences.json").then((response) => response.json()),
      fetch("vocab.txt").then((response) => response.text()),
    ]);
    const engine = new Search();
    engine.sentences = sentences;
    engine.tokens = new WordPiece(vocabulary);
    engine.model = await load({ worker: true, onProgress });
    ({ variant: engine.variant, threads: engine.threads } = engine.model);
    engine.vectors = await engine.encode(sentences);
    return engine;
  }

  /** The sentences nearest to a question: { sentence, score }, the best first. */
  async find(question, count) {
    const [asked] = await this.encode([question]);
    const scored = this.vectors.map((vector, i) => ({
      sentence: this.sentences[i],
      score: vector.reduce((sum, value, j) => sum + value * asked[j], 0),
    }));
    return scored.sort((a, b) => b.score - a.score).slice(0, count);
  }

  /** Texts, of any number and length, to vectors. */
  async encode(texts) {
    const rows = texts.map((text) => this.tokens.encode(text));
    const longest = Math.max(...rows.map((row) => row.length)),
      shape = [rows.length, longest];
    const ids = new BigInt64Array(rows.length * longest),
      mask = new BigInt64Array(ids.length);
    rows.forEach((row, i) =>
      row.forEach((number, j) => {
        ids[i * longest + j] = BigInt(number);
        mask[i * longest + j] = 1n;
      }),
    );
    const outputs = await this.model.run({
      input_ids: { data: ids, shape },
      attention_mask: { data: mask, shape },
    });
    const { data, shape: [, width] } = outputs[this.model.outputs[0].name];
    return rows.map((_, i) => data.slice(i * width, (i + 1) * width));
  }
}
