// Places on the sky: as people write them, and where they lie on a map of the whole sky (Hammer's, equal in area).
// It never asks the server and never draws.

const NUMBER = '[+-]?\\d+(?:\\.\\d*)?';
const DEGREES = new RegExp(`^(${NUMBER})\\s*[, ]\\s*(${NUMBER})$`);
const PARTS = new RegExp(`^(\\d+)[h: ]\\s*(\\d+)(?:[m: ]\\s*(\\d+(?:\\.\\d*)?)?s?)?\\s*[, ]?\\s*([+-]?)(\\d+)[d°: ]\\s*(\\d+)(?:[m'′: ]\\s*(\\d+(?:\\.\\d*)?)?(?:s|"|″)?)?$`, 'i');

/**
 * A position in degrees (ICRS): `202.47 47.2`, `202.47,47.2`, `13:29:53 +47:11:43`, `13h29m53s +47d11m43s`. Null if the
 * text is none.
 */
export function parsePlace(text) {
  const trimmed = text.trim().replace(/\s+/g, ' ');
  const degrees = DEGREES.exec(trimmed);
  if (degrees) return inside(Number(degrees[1]), Number(degrees[2]));
  const parts = PARTS.exec(trimmed);
  if (!parts) return null;
  const [, hours, minutes, seconds = 0, sign, whole, arcMinutes, arcSeconds = 0] = parts;
  if ([minutes, seconds, arcMinutes, arcSeconds].some((part) => Number(part) >= 60)) return null;
  const dec = Number(whole) + Number(arcMinutes) / 60 + Number(arcSeconds) / 3600;
  return inside((Number(hours) + Number(minutes) / 60 + Number(seconds) / 3600) * 15, sign === '-' ? -dec : dec);
}

const inside = (ra, dec) => (ra >= 0 && ra <= 360 && Math.abs(dec) <= 90 ? { ra: ra % 360, dec } : null);

const pad = (number, digits = 2) => String(number).padStart(digits, '0');

/** `13:29:52.8 +47:11:43`. */
export function placeWords({ ra, dec }) {
  const tenths = Math.round((ra / 15) * 36000) % 864000;
  const hours = `${pad(Math.floor(tenths / 36000))}:${pad(Math.floor(tenths / 600) % 60)}:${pad(Math.floor(tenths / 10) % 60)}.${tenths % 10}`;
  const seconds = Math.round(Math.abs(dec) * 3600);
  return `${hours} ${dec < 0 ? '−' : '+'}${pad(Math.floor(seconds / 3600))}:${pad(Math.floor(seconds / 60) % 60)}:${pad(seconds % 60)}`;
}

const rad = (degrees) => (degrees * Math.PI) / 180;
const RIGHT = Math.SQRT2 * 2;

/**
 * Where a position lies on the map: from -1 to 1 in both directions, east to the left as one sees the sky, with the middle
 * at 12 hours. `side` says on which edge what lies just there is drawn: -1 left, 1 right.
 */
export function onMap(ra, dec, side = 0) {
  let along = rad(180 - ra);
  if (side && Math.abs(Math.abs(along) - Math.PI) < 1e-9) along = Math.PI * side;
  const root = Math.sqrt(1 + Math.cos(rad(dec)) * Math.cos(along / 2));
  return [(RIGHT * Math.cos(rad(dec)) * Math.sin(along / 2)) / root / RIGHT, (Math.SQRT2 * Math.sin(rad(dec))) / root / Math.SQRT2];
}

/** The position at a place of the map; null outside of the sky. */
export function fromMap(x, y) {
  if (x * x + y * y > 1) return null;
  const [a, b] = [x * RIGHT, y * Math.SQRT2];
  const z = Math.sqrt(1 - (a / 4) ** 2 - (b / 2) ** 2);
  const along = 2 * Math.atan2(z * a, 2 * (2 * z * z - 1));
  const dec = Math.asin(Math.max(-1, Math.min(1, z * b)));
  return { ra: (((180 - (along * 180) / Math.PI) % 360) + 360) % 360, dec: (dec * 180) / Math.PI };
}
