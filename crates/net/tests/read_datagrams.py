#!/usr/bin/env python3
"""A second reading of GMP datagrams, written from docs/formats.md alone and sharing no code with the first: where the two
differ, the document or one of them is wrong. Only the standard library is needed.

Reads a capture and prints a line for each datagram. The capture is text:

    key HEX              the session's 32-byte key
    private HEX          the text of the accepting role's private key file
    opener HEX           a datagram of who opened the session
    acceptor HEX         a datagram of who accepted it
"""

import hashlib
import hmac
import struct
import sys

MASK = 0xFFFFFFFF


def rotate(value, count):
    return (value << count | value >> (32 - count)) & MASK


def quarter_round(state, a, b, c, d):
    """RFC 8439, 2.1."""
    for first, second, third, count in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[first] = (state[first] + state[second]) & MASK
        state[third] = rotate(state[third] ^ state[first], count)


def chacha20_block(key, counter, nonce):
    """RFC 8439, 2.3: 64 bytes of the key stream."""
    constants = struct.unpack("<4I", b"expand 32-byte k")
    start = [*constants, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce)]
    state = list(start)
    for _ in range(10):
        for column in range(4):
            quarter_round(state, column, column + 4, column + 8, column + 12)
        for at in range(4):
            quarter_round(state, at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4)
    return struct.pack("<16I", *((a + b) & MASK for a, b in zip(state, start)))


def poly1305(one_time_key, message):
    """RFC 8439, 2.5."""
    prime = (1 << 130) - 5
    r = int.from_bytes(one_time_key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    sum_ = 0
    for at in range(0, len(message), 16):
        sum_ = (sum_ + int.from_bytes(message[at : at + 16] + b"\x01", "little")) * r % prime
    return ((sum_ + int.from_bytes(one_time_key[16:], "little")) % (1 << 128)).to_bytes(16, "little")


def unseal(key, nonce, head, sealed):
    """RFC 8439, 2.8; None where the tag is another."""
    body, tag = sealed[:-16], sealed[-16:]
    padded = lambda text: text + bytes(-len(text) % 16)
    covered = padded(head) + padded(body) + struct.pack("<QQ", len(head), len(body))
    if not hmac.compare_digest(poly1305(chacha20_block(key, 0, nonce)[:32], covered), tag):
        return None
    stream = b"".join(chacha20_block(key, 1 + at, nonce) for at in range((len(body) + 63) // 64))
    return bytes(a ^ b for a, b in zip(body, stream))


def expand(secret, label):
    return hmac.new(secret, label + b"\x01", hashlib.sha256).digest()


class Direction:
    """The keys of what one side seals."""

    def __init__(self, session_key, label):
        self.newest = 0
        self.secrets = [expand(session_key, label)]

    def key(self, phase):
        while len(self.secrets) <= phase:
            self.secrets.append(expand(self.secrets[-1], b"sector gmp 2 next"))
        return expand(self.secrets[phase], b"sector gmp 2 key")

    def unseal(self, datagram):
        """The phase, counted from 0, and the body; None where it is not authentic."""
        ahead = ((datagram[12] >> 4) - self.newest) % 16
        phase = self.newest + {0: 0, 1: 1, 15: -1}.get(ahead, -self.newest - 1)
        if phase < 0:
            return None
        nonce = bytes(5) + datagram[13:20]
        body = unseal(self.key(phase), nonce, datagram[:20], datagram[20:])
        if body is None:
            return None
        self.newest = max(self.newest, phase)
        return phase, body


def frames(body):
    """The frames of a body, each as text."""
    while body:
        kind = body[0]
        if kind == 1:
            next_, length = struct.unpack(">QB", body[1:10])
            bits = int.from_bytes(body[10 : 10 + length], "little")
            arrived = "".join(f" {next_ + at}" for at in range(8 * length) if bits >> at & 1)
            yield f"ack {next_}{arrived}"
            body = body[10 + length :]
        elif kind == 2:
            sequence, first, index, count, message, request, length = struct.unpack(">QQHHBQH", body[1:32])
            payload = body[32 : 32 + length]
            digest = hashlib.sha256(payload).hexdigest()[:16]
            name = ("notice", "request", "reply")[message]
            yield f"fragment {sequence} of {first} {index}/{count} {name} {request} {length} {digest}"
            body = body[32 + length :]
        elif kind == 3:
            sequence, request = struct.unpack(">QQ", body[1:17])
            yield f"cancel {sequence} {request}"
            body = body[17:]
        else:
            raise ValueError(f"a frame of kind {kind}")


def read_sealed(direction, datagram):
    unsealed = direction.unseal(datagram)
    if unsealed is None:
        return "not authentic"
    phase, body = unsealed
    packet = int.from_bytes(datagram[13:20], "big")
    return f"{packet} phase {phase} heard {datagram[12] & 15}: {' | '.join(frames(body))}"


def read_gone(private_key, datagram):
    key = hmac.new(b"sector gmp 2 gone", private_key, hashlib.sha256).digest()
    token = hmac.new(key, datagram[4:12], hashlib.sha256).digest()[:16]
    is_right = len(datagram) == 28 and token == datagram[12:]
    return f"gone {datagram[4:12].hex()}: {'right' if is_right else 'wrong'}"


def main():
    directions, private_key = {}, b""
    with open(sys.argv[1], encoding="ascii") as capture:
        for line in capture:
            name, text = line.split()
            given = bytes.fromhex(text)
            if name == "key":
                for side in ("opener", "acceptor"):
                    directions[side] = Direction(given, f"sector gmp 2 {side}".encode())
            elif name == "private":
                private_key = given
            elif given[:3] != b"SG\x02":
                print(f"{name} not ours")
            elif given[3] == 1:
                print(f"{name} {read_sealed(directions[name], given)}")
            elif given[3] == 2:
                print(f"{name} {read_gone(private_key, given)}")


if __name__ == "__main__":
    main()
