// The thread in which the answer about segments is read and packed, so that the page never halts over it.
// It never asks the server: it gets the bytes of the answer.
import { pack } from './segments.js';

onmessage = ({ data: { id, buffer } }) => {
  try {
    const packed = pack(JSON.parse(new TextDecoder().decode(buffer)));
    const moved = Object.values(packed).filter((value) => ArrayBuffer.isView(value)).map((value) => value.buffer);
    postMessage({ id, packed }, moved);
  } catch (error) {
    postMessage({ id, error: String(error.message ?? error) });
  }
};
