// A drawing as the digit model's training data has digits: 8 x 8 counts of ink, each over 4 x 4
// points of a picture of 32 x 32 that the digit fills.

const SIDE = 32,
  CELL = 4;

/** Float32Array of 64 values from 0 to 1; null for an empty canvas. */
export function imageOf(canvas) {
  const box = inkBox(canvas);
  if (!box) return null;
  const small = new OffscreenCanvas(SIDE, SIDE);
  const context = small.getContext("2d", { willReadFrequently: true });
  const scale = SIDE / Math.max(box.width, box.height);
  const width = box.width * scale,
    height = box.height * scale;
  const left = (SIDE - width) / 2,
    top = (SIDE - height) / 2;
  context.imageSmoothingQuality = "high";
  context.drawImage(canvas, box.x, box.y, box.width, box.height, left, top, width, height);
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  const counts = new Float32Array((SIDE / CELL) ** 2);
  for (let y = 0; y < SIDE; ++y) {
    for (let x = 0; x < SIDE; ++x) {
      const cell = Math.floor(y / CELL) * (SIDE / CELL) + Math.floor(x / CELL);
      if (data[4 * (y * SIDE + x) + 3] > 127) counts[cell] += 1 / CELL ** 2;
    }
  }
  return counts;
}

function inkBox(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let left = width,
    right = -1,
    top = height,
    bottom = -1;
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      if (data[4 * (y * width + x) + 3] < 128) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  }
  return right < 0 ? null : { x: left, y: top, width: right - left + 1, height: bottom - top + 1 };
}
