// States of clouds that are made up: 1,000 nodes on 5 sites, a job of 100,000 segments, names that try to be scripts.
// It never opens a socket.

/** The same numbers in each run. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

export const HOSTILE = [
  '<script>window.hacked=1</script>.txt',
  '"><img src=x onerror="window.hacked=1">.csv',
  "'; alert(1); '.json",
  'javascript:window.hacked=1',
  'photo\u202egnp.exe',
  'שלום עולם.txt',
  'مرحبا.csv',
  'a & b % c # d ? e.txt',
  `${'a-very-long-name-'.repeat(14)}end.fits`,
  'ünïcödé 名前.md',
  '{{constructor.constructor("window.hacked=1")()}}',
];

const SITES = ['amsterdam', 'chicago', 'geneva', 'tokyo', 'canberra'];

export function bigNodes(count = 1000) {
  const next = random(7);
  return Array.from({ length: count }, (_, at) => {
    const site = SITES[at % 5];
    const full = at % 211 === 17;
    const total = 4e12;
    const used = full ? total * 0.995 : Math.floor(total * (0.2 + next() * 0.6));
    return {
      id: `node-${at + 1}`, site, rack: `rack-${(Math.floor(at / 5) % 10) + 1}`, address: `10.${at % 5}.${Math.floor(at / 250)}.${at % 250}:7000`,
      state: at % 173 === 5 ? 'lost' : at % 499 === 3 ? 'joining' : 'up', used_bytes: used, free_bytes: total - used, pid: 0, data: '/data',
      standing: at % 157 === 9 ? 'draining' : 'active', fill_percent: Math.round((used / total) * 1000) / 10, reserve_bytes: 33554432, full, nearly_full: false,
      slices: Math.floor(next() * 9000), disks: [{ folder: '/data/disk-1', state: at % 311 === 20 ? 'failed' : 'ok', used_bytes: used, free_bytes: total - used, why: at % 311 === 20 ? 'Input/output error' : '', scrub: { pass_began: '2026-01-01T00:00:00Z', last_pass: null, position: null, checked_bytes: used / 3, total_bytes: used, corrupt: 0 } }],
      sandbox_missing: [], refused_tickets: { expired: 0, used: 0 }, links: [], marks: { failed: at % 131 === 40 ? 2 : 0, overtaken: at % 97 === 11 ? 3 : 0 },
    };
  });
}

/** Load of all nodes at a second: waves over the racks, so that one sees what moves. */
export function loadOf(nodes, second) {
  const next = random(Math.floor(second));
  return {
    time: new Date(second * 1000).toISOString(), sample_seconds: 1,
    nodes: nodes.map((node, at) => {
      const wave = Math.min(1, Math.max(0, 0.45 + 0.35 * Math.sin(second / 40 + (at % 5) * 1.3 + Math.floor(at / 50) * 0.5) + (next() - 0.5) * 0.3));
      const isDown = node.state === 'lost';
      return { node: node.id, site: node.site, rack: node.rack, processors: 32, memory_bytes: 137438953472, processes: [], disks: isDown ? [] : [diskOf(wave)], load: isDown ? null : sampleOf(wave) };
    }),
  };
}

const diskOf = (wave) => ({ busy: wave * 0.8, latency_seconds: 0.0004 + wave * 0.006, queue: wave * 3, read_bytes_per_second: Math.floor(wave * 4e8), written_bytes_per_second: Math.floor(wave * 1.2e8) });

export function sampleOf(wave) {
  const disk = diskOf(wave);
  return {
    disk_busy: disk.busy, disk_latency_seconds: disk.latency_seconds, disk_queue: disk.queue, disk_read_bytes_per_second: disk.read_bytes_per_second, disk_written_bytes_per_second: disk.written_bytes_per_second,
    memory_bytes: Math.floor(137438953472 * (0.2 + wave * 0.5)), network_received_bytes_per_second: Math.floor(wave * 9e8), network_sent_bytes_per_second: Math.floor(wave * 7e8),
    node_memory_bytes: Math.floor(2e8 + wave * 9e8), node_processor: wave * 0.2, processor: wave, spe_memory_bytes: Math.floor(wave * 6e10), spe_processor: wave * 0.7, spes: Math.round(wave * 32), transfers: Math.round(wave * 12),
  };
}

export function linksOf(nodes, second) {
  const sites = [...new Set(nodes.map((node) => node.site))];
  return sites.flatMap((from, a) => sites.filter((to) => to !== from).map((to) => {
    const b = sites.indexOf(to);
    const far = Math.abs(a - b);
    return {
      from, to, round_trip_seconds: 0.02 + far * 0.035 + 0.002 * Math.sin(second / 9 + a), sent_bytes_per_second: Math.floor(3e8 * Math.abs(Math.sin(second / 60 + a * 2 + b))),
      loss: a + b === 7 ? 0.023 : 0.0001 * far, retransmitted_bytes_per_second: 20000 * far, limit_bytes_per_second: a === 0 ? 1.25e9 : null, marked: a + b === 7 ? 'loss above 2 % for 5 minutes' : null,
    };
  }));
}

export const bigHealth = (nodes) => ({
  status: 'warning',
  reasons: [
    ...nodes.filter((node) => node.state === 'lost').map((node) => `node ${node.id} is lost; start it again`),
    ...nodes.filter((node) => node.standing === 'draining').slice(0, 2).map((node) => `node ${node.id} is being drained, 1204 slices are left; wait`),
    ...nodes.filter((node) => node.full).slice(0, 1).map((node) => `node ${node.id} is full: less than the reserve of 33554432 bytes is free, so it gets no new slices; add nodes, remove files, or \`sector rebalance\``),
  ],
  under_replicated: 1204, corrupt: 2, lost: 0, misplaced: 0, short_of_nodes: 0, refused_tickets: {}, insecure_sites: [],
  used_bytes: nodes.reduce((sum, node) => sum + node.used_bytes, 0), free_bytes: nodes.reduce((sum, node) => sum + node.free_bytes, 0),
});

export function workOf(nodes) {
  const now = new Date().toISOString();
  const row = (at, work, state, more = {}) => ({ at, work, subject: '', state, done: null, left: null, unit: 'steps', last_error: null, last_error_time: null, next: null, reported: now, ...more });
  return [
    row('master', 'repair', 'running', { done: 8120, left: 1204, unit: 'files' }),
    row('master', 'rebalance', 'off', { unit: 'files' }),
    row('master', 'audit-delivery', 'failing', { done: 3, left: 44, unit: 'events', last_error: 'the collector <b>logs.example</b> does not answer: connection refused', last_error_time: new Date(Date.now() - 65000).toISOString() }),
    row('master', 'trash-purge', 'idle', { unit: 'files', next: new Date(Date.now() + 1800000).toISOString() }),
    ...nodes.slice(0, 300).flatMap((node, at) => [
      row(node.id, 'scrub', at % 9 ? 'idle' : 'running', { subject: '/data/disk-1', done: 1.1e12, left: at % 9 ? 0 : 9e11, unit: 'bytes', next: new Date(Date.now() + 86400000).toISOString() }),
      row(node.id, 'disk-watch', at === 20 ? 'blocked' : 'idle', at === 20 ? { last_error: 'Input/output error', last_error_time: now } : {}),
    ]),
  ];
}

export function jobOf(id, state, segments, more = {}) {
  return {
    id, state, user: 'alice', title: 'words, then index over /text/wikipedia', started: new Date(Date.now() - 620000).toISOString(),
    stages: [
      { segments, done: state === 'running' ? Math.floor(segments * 0.7) : segments, failed: 0, retried: 12, speculative: 31, local: Math.floor(segments * 0.66), bytes_in: segments * 64e6, bytes_out: segments * 21e6, counters: { words: segments * 9_000_000, 'bad <i>lines</i>': 17 } },
      { segments: 4000, done: state === 'running' ? 0 : 4000, failed: 0, retried: 0, speculative: 0, local: 0, bytes_in: state === 'running' ? 0 : 2.1e12, bytes_out: state === 'running' ? 0 : 8e11, counters: {} },
    ],
    errors: [], failed_segments: 0, error_slice: null, driver: null, ...more,
  };
}

/** Attempts on nodes with 8 SPEs each, some slow, some failed. */
export function segmentsOf(count, nodeCount) {
  const next = random(11);
  const free = Array.from({ length: nodeCount * 8 }, () => next() * 300);
  return Array.from({ length: count }, (_, at) => {
    const place = at % free.length;
    const slow = next() < 0.002 ? 4 : 1;
    const took = Math.floor((900 + next() * 900) * slow);
    const began = Math.floor(free[place]);
    free[place] += took + 15;
    const lot = next();
    return {
      stage: at < count * 0.8 ? 0 : 1, run: 0, segment: at, segments: 1, attempt: 0, node: `node-${Math.floor(place / 8) + 1}`, began_ms: began, took_ms: took,
      bytes: Math.floor(64e6 * (0.7 + next() * 0.6)), end: lot < 0.0008 ? 'failed' : lot < 0.002 ? 'overtaken' : 'done', slice: `/text/wikipedia/part-${String(at % 4096).padStart(5, '0')}`,
    };
  });
}

export const jobErrors = () => [
  { stage: 0, function: 'words.py:words', slice: '/text/<script>window.hacked=1</script>', segment: 77, from: 4096, until: 8192, first_record: 1200, record: 3, record_start: '<img src=x onerror=window.hacked=1>\\t\\xff', message: 'Traceback (most recent call last):\n  File "words.py", line 4, in words\nValueError: <script>window.hacked=1</script> is no number' },
];

export const jobLogs = () => ({ segments: [{ stage: 0, segment: 3, run: 0, attempt: 0, node: 'node-2', failed: true, text: 'starting\u001b[31m red \u202e turned\n<b>bold?</b>\n', left_out_bytes: 1200 }, { stage: 0, segment: null, run: 0, attempt: 0, node: 'node-1', failed: false, text: 'loaded 3 modules', left_out_bytes: 0 }], left_out: 4 });

export const NOTEBOOK = JSON.stringify({ cells: [
  { cell_type: 'markdown', source: ['# Title <script>window.hacked=1</script>\n', 'Some *words*.'] },
  { cell_type: 'code', source: ['print(1 + 1)'], outputs: [{ output_type: 'stream', text: ['2\n'] }, { output_type: 'display_data', data: { 'text/html': '<script>window.hacked=1</script>', 'text/plain': ['<Figure>'] } }] },
], metadata: {}, nbformat: 4, nbformat_minor: 5 });

export function fits() {
  const card = (text) => text.padEnd(80);
  const cards = ["SIMPLE  =                    T / conforms to FITS", 'BITPIX  =                  -32', 'NAXIS   =                    2', 'NAXIS1  =                   10', 'NAXIS2  =                   20', "OBJECT  = 'M31 <b>x</b>'       / what / was seen", 'COMMENT taken at night', 'END'].map(card).join('').padEnd(2880);
  const second = ["XTENSION= 'IMAGE   '", 'BITPIX  =                    8', 'NAXIS   =                    0', "EXTNAME = 'second''s'", 'END'].map(card).join('').padEnd(2880);
  return Buffer.concat([Buffer.from(cards, 'latin1'), Buffer.alloc(2880), Buffer.from(second, 'latin1')]);
}

export const CSV = 'name,value,note\nalpha,1,"a, quoted ""cell"""\n<script>window.hacked=1</script>,2,=cmd|calc\nשלום,3,"two\nlines"\n';
/** A picture of one pixel. */
export const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
