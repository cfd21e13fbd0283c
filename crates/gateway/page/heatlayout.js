// Where each node's block stands in the heat map: sites as groups, racks within, blocks within racks.
// It never draws and knows no values.
import { natural } from './format.js';

const SIZES = [[108, 46], [76, 36], [54, 28], [38, 22], [26, 20], [20, 18], [16, 16], [13, 13], [10, 10]];
const GAP = 2;
const RACK_HEAD = 16;
const RACK_GAP = 10;
const SITE_HEAD = 24;
const SITE_GAP = 20;

function grouped(items, key) {
  const groups = new Map();
  for (const item of items) {
    if (!groups.has(item[key])) groups.set(item[key], []);
    groups.get(item[key]).push(item);
  }
  return [...groups].sort(([a], [b]) => natural(a, b));
}

/** The largest blocks with which all nodes fit below `room`, in as many columns of sites as that takes. */
export function layOut(nodes, width, room) {
  const sites = grouped(nodes, 'site').map(([name, members]) => ({
    name,
    count: members.length,
    racks: grouped(members, 'rack').map(([rack, inside]) => ({ name: rack, nodes: inside.sort((a, b) => natural(a.id, b.id)) })),
  }));
  let best = null;
  for (const size of SIZES) {
    for (let columns = Math.max(1, Math.min(sites.length, Math.floor(width / 240))); columns >= 1; columns -= 1) {
      const found = arrange(sites, width, columns, size);
      if (found.height <= room) return found;
      if (!best || found.height < best.height) best = found;
    }
  }
  return best ?? { blocks: [], racks: [], sites: [], height: 0, size: SIZES[0] };
}

function arrange(sites, width, columns, size) {
  const siteWidth = (width - SITE_GAP * (columns - 1)) / columns;
  const found = { blocks: [], racks: [], sites: [], height: 0, size };
  let top = 0;
  for (let first = 0; first < sites.length; first += columns) {
    let tallest = 0;
    sites.slice(first, first + columns).forEach((site, column) => {
      const left = column * (siteWidth + SITE_GAP);
      found.sites.push({ name: site.name, count: site.count, x: left, y: top, w: siteWidth });
      tallest = Math.max(tallest, placeSite(site, left, top, siteWidth, size, found));
    });
    top += tallest + SITE_GAP;
  }
  found.height = Math.max(0, top - SITE_GAP);
  return found;
}

/** Places the racks of a site as words in a line; returns the site's height. */
function placeSite(site, left, top, width, [w, h], found) {
  let [x, y, line] = [left, top + SITE_HEAD, 0];
  const most = Math.max(1, Math.floor((width + GAP) / (w + GAP)));
  for (const rack of site.racks) {
    const columns = Math.min(most, columnsOf(rack.nodes.length, w, h));
    const rackWidth = Math.max(columns * (w + GAP) - GAP, Math.min(width, 44));
    const rackHeight = RACK_HEAD + Math.ceil(rack.nodes.length / columns) * (h + GAP) - GAP;
    if (x > left && x + rackWidth > left + width + 0.5) {
      x = left;
      y += line + RACK_GAP;
      line = 0;
    }
    found.racks.push({ name: rack.name, x, y, w: rackWidth });
    rack.nodes.forEach((node, at) => {
      found.blocks.push({
        id: node.id, w, h,
        x: x + (at % columns) * (w + GAP),
        y: y + RACK_HEAD + Math.floor(at / columns) * (h + GAP),
      });
    });
    x += rackWidth + RACK_GAP;
    line = Math.max(line, rackHeight);
  }
  return y + line - top;
}

/** Racks somewhat wider than high; few nodes in one line. */
function columnsOf(count, w, h) {
  if (count <= 4) return count;
  return Math.max(2, Math.ceil(Math.sqrt((count * 1.8 * h) / w)));
}

export function blockAt(layout, x, y) {
  return layout.blocks.findIndex((block) => x >= block.x && x < block.x + block.w + GAP && y >= block.y && y < block.y + block.h + GAP);
}

/** The nearest block in a direction: straight ahead counts more than aside. */
export function nextBlock(layout, from, dx, dy) {
  const here = layout.blocks[from];
  let [best, least] = [from, Infinity];
  layout.blocks.forEach((block, at) => {
    const ahead = (block.x - here.x) * dx + (block.y - here.y) * dy;
    if (at === from || ahead <= 0.5) return;
    const aside = Math.abs((block.x - here.x) * dy) + Math.abs((block.y - here.y) * dx);
    const far = ahead + aside * 3;
    if (far < least) [best, least] = [at, far];
  });
  return best;
}
