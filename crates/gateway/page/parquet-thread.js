// The thread in which the head of a Parquet file is read, by ranges: schema, row groups, first rows. All of it becomes
// text here. It never reads more than its limits, and the page ends it when a file keeps it busy for too long.
import { parquetMetadataAsync, parquetRead, parquetSchema, snappyUncompress } from './vendor/hyparquet/index.js';
import { decompress as unpackZstd } from './vendor/fzstd.js';
import { gunzip } from './vendor/gzip.js';

const ROWS = 50;
const COLUMNS_READ = 40;
const COLUMNS_TOLD = 1000;
const GROUPS_TOLD = 200;
const TEXT_MAX = 300;
/** A file so small is read at once; of a larger one a column up to so many bytes, and all columns together. */
const WHOLE_MAX = 1 << 20;
const COLUMN_MAX = 4 << 20;
const ALL_MAX = 32 << 20;
/** Of a plain column so much is fetched, which has its dictionary and its first page as most programs make them. */
const CLIP = 2304 << 10;
/** What a column that says where its pages begin costs at most, about. */
const PAGED_COST = 1 << 20;
const TOO_LARGE = 'Its first part is too large for a preview.';
const PAGE_MAX = 64 << 20;
const FOOTER_MAX = 32 << 20;
/** `PAR1`. */
const MAGIC = 0x31524150;

class Plain extends Error {}

onmessage = async ({ data: { address, bytes, digest } }) => {
  try {
    postMessage({ head: await read(fileAt(address, bytes, digest)) });
  } catch (error) {
    postMessage({ error: sentence(error) });
  }
};

function sentence(error) {
  if (error instanceof Plain) return error.message;
  const said = String(error?.message ?? error).replace(/^parquet /, '');
  if (/PAR1|too short/.test(said)) return 'It does not end as a Parquet file does: it was cut off, is encrypted, or is no Parquet file.';
  return `It is damaged, or made in a way that this page cannot read (${said.slice(0, TEXT_MAX)}).`;
}

/** Ranges of one version of the file. */
function fileAt(address, byteLength, digest) {
  let spent = 0;
  const fetchRange = async (start, end) => {
    spent += end - start;
    if (!(start >= 0 && end <= byteLength && start <= end)) throw new Error('a part lies outside of the file');
    if (spent > FOOTER_MAX + ALL_MAX) throw new Plain('Its parts are too large for a preview.');
    if (start === end) return new ArrayBuffer(0);
    const response = await fetch(address, { headers: { Range: `bytes=${start}-${end - 1}`, 'If-Range': `"${digest}"` }, credentials: 'same-origin' });
    if (response.status === 200) { response.body?.cancel(); throw new Plain('The file was replaced while it was read. Open it again.'); }
    if (response.status !== 206) throw new Plain((await response.json().catch(() => null))?.error?.message ?? `The server answered ${response.status}.`);
    return response.arrayBuffer();
  };
  let whole = null;
  const slice = async (start, end = byteLength) => {
    const [from, to] = [Number(start), Number(end)];
    if (byteLength > WHOLE_MAX) return fetchRange(from, to);
    whole ??= fetchRange(0, byteLength);
    return (await whole).slice(from, to);
  };
  return { byteLength, slice };
}

const bounded = (unpack) => (input, length) => {
  if (!(length <= PAGE_MAX)) throw new Plain('Its pages are too large for a preview.');
  return unpack(input, length);
};
const COMPRESSORS = {
  SNAPPY: bounded((input, length) => { const out = new Uint8Array(length); snappyUncompress(input, out); return out; }),
  GZIP: bounded((input, length) => gunzip(input, new Uint8Array(length))),
  ZSTD: bounded((input, length) => unpackZstd(input, new Uint8Array(length))),
};
const KNOWN_CODECS = new Set(['UNCOMPRESSED', ...Object.keys(COMPRESSORS)]);

async function read(file) {
  const metadata = await parquetMetadataAsync(await withSaneFooter(file));
  const tree = parquetSchema(metadata);
  const groups = metadata.row_groups ?? [];
  const top = tree.children;
  const wanted = groupsOfRows(groups);
  const columns = [];
  let spent = 0;
  for (const node of top.slice(0, COLUMNS_READ)) {
    const name = node.element.name;
    const chunks = wanted.flatMap((group) => group.columns.filter((chunk) => chunk.meta_data?.path_in_schema?.[0] === name));
    const codec = chunks.map((chunk) => chunk.meta_data.codec).find((found) => !KNOWN_CODECS.has(found));
    const isPlain = node.children.length === 0 && node.element.repetition_type !== 'REPEATED';
    const costOf = (chunk) => (chunk.offset_index_offset ? Math.min(PAGED_COST, size(chunk)) : isPlain ? Math.min(CLIP, size(chunk)) : size(chunk));
    const cost = chunks.reduce((sum, chunk) => sum + costOf(chunk), 0);
    let left = null;
    if (codec) left = `This page cannot unpack ${codec}.`;
    else if (cost > COLUMN_MAX || spent + cost > ALL_MAX) left = TOO_LARGE;
    const isClipped = isPlain && chunks.some((chunk) => !chunk.offset_index_offset && size(chunk) > CLIP);
    const values = left ? [] : await valuesOf(file, isClipped ? clipped(metadata, wanted, name) : metadata, node).catch((error) => { left = isClipped ? TOO_LARGE : sentence(error); return []; });
    if (!left) spent += cost;
    columns.push({ name, values, left });
  }
  return {
    rows: text(metadata.num_rows), made_by: text(metadata.created_by ?? ''), version: text(metadata.version),
    leaves: leavesOf(top, groups), leaf_count: count(top), columns, column_count: top.length,
    row_count: Math.max(0, ...columns.map((column) => column.values.length)),
    groups: groups.slice(0, GROUPS_TOLD).map((group) => ({
      rows: text(group.num_rows), bytes: Number(group.total_byte_size ?? 0), packed: group.columns.reduce((sum, chunk) => sum + size(chunk), 0),
    })),
    group_count: groups.length,
  };
}

/** The file, if what its end says of the length of its description can be true. */
async function withSaneFooter(file) {
  if (file.byteLength < 12) throw new Error('file is too short');
  const end = new DataView(await file.slice(file.byteLength - 8, file.byteLength));
  if (end.getUint32(4, true) !== MAGIC) throw new Error('no PAR1 at the end');
  if (end.getUint32(0, true) > FOOTER_MAX) throw new Plain('Its description is too large for a preview, or the file is damaged.');
  return file;
}

const size = (chunk) => Number(chunk.meta_data?.total_compressed_size ?? 0);
const count = (nodes) => nodes.reduce((sum, node) => sum + (node.children.length ? count(node.children) : 1), 0);

/** Those that hold the first rows. */
function groupsOfRows(groups) {
  const found = [];
  let rows = 0;
  for (const group of groups) {
    if (rows >= ROWS) break;
    found.push(group);
    rows += Number(group.num_rows);
  }
  return found;
}

/** The same description, with the column no longer than what is fetched of it: values are read until there are enough. */
function clipped(metadata, wanted, name) {
  const clip = (chunk) => (chunk.meta_data?.path_in_schema?.[0] === name && size(chunk) > CLIP ? { ...chunk, meta_data: { ...chunk.meta_data, total_compressed_size: BigInt(CLIP) } } : chunk);
  return { ...metadata, row_groups: metadata.row_groups.map((group) => (wanted.includes(group) ? { ...group, columns: group.columns.map(clip) } : group)) };
}

async function valuesOf(file, metadata, { element }) {
  let rows = [];
  await parquetRead({ file, metadata, columns: [element.name], rowStart: 0, rowEnd: ROWS, useOffsetIndex: true, utf8: false, compressors: COMPRESSORS, onComplete: (found) => { rows = found; } });
  const isDay = element.logical_type?.type === 'DATE' || element.converted_type === 'DATE';
  return rows.map((row) => { const value = shown(row[0]); return isDay && value ? value.slice(0, 10) : value; });
}

/** All columns that hold values, those within others with the names of these before theirs. */
function leavesOf(nodes, groups, found = []) {
  for (const node of nodes) {
    if (found.length >= COLUMNS_TOLD) break;
    if (node.children.length) leavesOf(node.children, groups, found);
    else found.push(leafOf(node, groups));
  }
  return found;
}

function leafOf({ element, path }, groups) {
  const name = path.join('.');
  const chunks = groups.slice(0, GROUPS_TOLD).flatMap((group) => group.columns.filter((chunk) => chunk.meta_data?.path_in_schema?.join('.') === name)).map((chunk) => chunk.meta_data);
  const sum = (field) => chunks.reduce((all, chunk) => all + Number(chunk[field] ?? 0), 0);
  return {
    name, type: typeOf(element), optional: element.repetition_type === 'OPTIONAL', repeated: element.repetition_type === 'REPEATED',
    codecs: [...new Set(chunks.map((chunk) => text(chunk.codec)))].join(', '), packed: sum('total_compressed_size'), bytes: sum('total_uncompressed_size'),
  };
}

function typeOf(element) {
  const physical = element.type === 'FIXED_LEN_BYTE_ARRAY' ? `${element.type}(${element.type_length})` : text(element.type ?? '');
  const logical = element.logical_type;
  if (!logical) return element.converted_type ? `${text(element.converted_type)} (${physical})` : physical;
  const details = [logical.precision != null && `${logical.precision}, ${logical.scale ?? 0}`, logical.bitWidth && `${logical.isSigned ? '' : 'unsigned '}${logical.bitWidth} bits`, logical.unit && text(logical.unit), logical.isAdjustedToUTC && 'UTC'].filter(Boolean);
  return `${text(logical.type)}${details.length ? ` ${details.join(', ')}` : ''} (${physical})`;
}

const text = (value) => cut(String(value ?? ''));
const cut = (value) => (value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX)}…` : value);

/** The text of bytes of which the file does not say that they are text, if they are. */
function wordsOf(bytes) {
  if (bytes.length > 4 * TEXT_MAX) return null;
  try { const words = new TextDecoder('utf-8', { fatal: true }).decode(bytes); return /[\u0000-\u0008\u000b-\u001f\u007f]/.test(words) ? null : cut(words); } catch (_) { return null; }
}

/** A value as text; null stays null, to be told apart from a text. */
function shown(value) {
  if (value == null) return null;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'no valid time' : value.toISOString();
  if (value instanceof Uint8Array) return wordsOf(value) ?? cut(`0x${[...value.subarray(0, 64)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}${value.length > 64 ? '…' : ''}`);
  if (typeof value === 'object') return cut(JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? (Number.isSafeInteger(Number(part)) ? Number(part) : String(part)) : part instanceof Uint8Array ? shown(part) : part)));
  return cut(String(value));
}
