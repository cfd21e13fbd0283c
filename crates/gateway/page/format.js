// Numbers, times and texts for people, in the units of the command line.
// It never asks the server and never makes HTML.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const NONE = '–';

export function bytes(value) {
  if (value == null || !Number.isFinite(value)) return NONE;
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1023.95 && unit < UNITS.length - 1) { size /= 1024; unit += 1; }
  const text = unit === 0 ? String(Math.round(size)) : size.toFixed(1);
  return `${value < 0 ? '-' : ''}${text} ${UNITS[unit]}`;
}

export const rate = (value) => (value == null ? NONE : `${bytes(value)}/s`);

/** A rate for a small block: at most five characters. */
export function shortBytes(value) {
  if (value == null) return NONE;
  const [size, unit] = bytes(value).split(' ');
  return `${Number(size) >= 10 ? Math.round(Number(size)) : size}${unit[0]}`;
}

export function percent(share, digits = 0) {
  if (share == null || !Number.isFinite(share)) return NONE;
  return `${(share * 100).toFixed(digits)} %`;
}

export function loss(share) {
  if (share == null) return NONE;
  if (share === 0) return '0 %';
  return share < 0.0001 ? '< 0.01 %' : percent(share, share < 0.1 ? 2 : 1);
}

export function count(value) {
  if (value == null) return NONE;
  return Math.round(value).toLocaleString('en-GB').replaceAll(',', '\u202f');
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function decimal(value, digits = 2) {
  return value == null ? NONE : value.toFixed(digits);
}

/** A duration of seconds in one unit, or two where one is too coarse. */
export function seconds(value) {
  if (value == null || !Number.isFinite(value)) return NONE;
  const s = Math.abs(value);
  if (s === 0) return '0 s';
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 1) return `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return two(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86400) return two(Math.floor(whole / 3600), 'h', Math.floor((whole % 3600) / 60), 'min');
  return two(Math.floor(whole / 86400), 'd', Math.floor((whole % 86400) / 3600), 'h');
}

function two(large, largeUnit, small, smallUnit) {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

const pad = (number) => String(number).padStart(2, '0');

export function clock(time) {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? NONE : `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

export function dateTime(time) {
  if (time == null) return NONE;
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return NONE;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(at)}`;
}

export function ago(time, now = Date.now()) {
  if (time == null) return NONE;
  const past = (now - new Date(time).getTime()) / 1000;
  return past < 0 ? `in ${seconds(-past)}` : past < 1 ? 'just now' : `${seconds(past)} ago`;
}

// Controls and marks that turn the direction of text could make one name look like another.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name or message on one line, with unseen characters written out. */
export function clean(text) {
  return String(text ?? '').replace(UNSEEN, (mark) => `\\u{${mark.codePointAt(0).toString(16)}}`);
}

/** The same for text of many lines. */
export function cleanLines(text) {
  return String(text ?? '').replace(/\r\n?/g, '\n').replace(UNSEEN, (mark) => (mark === '\n' || mark === '\t' ? mark : clean(mark)));
}

/** Natural order: node-2 before node-10. */
const collator = new Intl.Collator('en', { numeric: true });
export const natural = (a, b) => collator.compare(a, b);
