// A film's poster as a frame of film. `worker-image/scene/scene/film.py` draws the same into the scene.

const BAND = 0.125;
const BLACK = '#16130f';
const HOLE = '#e9e2d3';

/** Draws the poster between two perforated bands, with the triangle by which everybody knows a film. */
export function drawFilm(context: CanvasRenderingContext2D, poster: CanvasImageSource, width: number, height: number): void {
  const inner = height * (1 - 2 * BAND);
  context.fillStyle = BLACK;
  context.fillRect(0, 0, width, height);
  context.drawImage(poster, 0, height * BAND, width, inner);
  context.fillStyle = HOLE;
  const count = Math.max(2, Math.round(width / (height * 0.11)));
  const pitch = width / count;
  const [wide, tall] = [pitch * 0.5, height * BAND * 0.5];
  for (let number = 0; number < count; number += 1) {
    for (const middle of [height * (BAND / 2), height * (1 - BAND / 2)]) {
      context.fillRect((number + 0.5) * pitch - wide / 2, middle - tall / 2, wide, tall);
    }
  }
  const radius = Math.min(width, inner) * 0.15;
  context.fillStyle = 'rgb(15 12 9 / 59%)';
  context.beginPath();
  context.arc(width / 2, height / 2, radius, 0, 2 * Math.PI);
  context.fill();
  context.fillStyle = '#ffffff';
  context.beginPath();
  for (const [x, y] of [[-0.32, -0.52], [0.58, 0], [-0.32, 0.52]] as const) context.lineTo(width / 2 + radius * x, height / 2 + radius * y);
  context.fill();
}

/** How wide a frame of film is for its height, with a poster of this size. */
export function filmRatio(width: number, height: number): number {
  return (width / height) * (1 - 2 * BAND);
}
