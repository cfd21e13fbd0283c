// The scale of the heat map: even steps of lightness, safe for the colour-blind, one for light and one for dark.
// Colour is never the only sign: numbers, patterns and marks stand beside it.

const LIGHT = ['#eef3d9', '#cfe6bd', '#9fd3b0', '#66bbae', '#3d9fac', '#2b80a5', '#285f97', '#26417f', '#1d2459'];
const DARK = ['#28304d', '#2f4470', '#33638d', '#2c7d8c', '#24988a', '#3fb57a', '#78cb58', '#b9da3a', '#f8e53b'];

export const isDark = () => document.documentElement.dataset.theme === 'dark';
export const scale = () => (isDark() ? DARK : LIGHT);
/** Colours of stages, by Okabe and Ito, with a darker yellow. */
export const STAGES = ['#0072b2', '#d18b00', '#009e73', '#a2558a', '#56b4e9', '#c25a00', '#8a8a00', '#7a7a7a'];

const inkOf = new Map();

export function colourOf(share) {
  const steps = scale();
  const place = Math.min(0.9999, Math.max(0, share));
  return steps[Math.floor(place * steps.length)];
}

/** Black or white, whichever is read better on a colour. */
export function ink(colour) {
  if (!inkOf.has(colour)) {
    const [red, green, blue] = [1, 3, 5].map((at) => linear(parseInt(colour.slice(at, at + 2), 16) / 255));
    inkOf.set(colour, 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? '#10151a' : '#ffffff');
  }
  return inkOf.get(colour);
}

const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);

/** A colour of the style sheet, for drawing. */
export function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** A canvas with sharp pixels; returns its context, cleared, in CSS pixels. */
export function prepare(canvas, width, height) {
  const dense = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * dense), Math.round(height * dense)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context.setTransform(dense, 0, 0, dense, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
