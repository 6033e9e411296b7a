/** The key of a client. clients/identity-cases.json has test cases for Python and Node.js. */

import { isIP } from "node:net";

/** The part of a request of Express, Fastify or Node.js that is used. */
export interface ClientRequest {
  /** The address at the other end of the connection. */
  readonly ip?: string | undefined;
  readonly headers?: { readonly [name: string]: string | readonly string[] | undefined } | undefined;
}

/** The key of all clients without an address, for example behind a Unix socket. They share one limit. */
const UNKNOWN = "unknown";

/**
 * Returns a key function. The key is the client's IPv4 address, or the first `ipv6` bits of its IPv6 address, because
 * one client may have all addresses of an IPv6 network. All clients without an address share one key.
 *
 * `proxies` is the number of your own proxies. Each proxy has added an address to the end of X-Forwarded-For. A client
 * can write anything before these addresses, so they are ignored.
 * Example: `expressLimit(limiter, { key: clientNetwork({ proxies: 1 }) })`
 */
export function clientNetwork({ ipv6 = 56, proxies = 0 }: { ipv6?: number; proxies?: number } = {}): (request: ClientRequest) => string {
  if (!Number.isInteger(ipv6) || ipv6 < 1 || ipv6 > 128) throw new RangeError(`ipv6 must be from 1 to 128 bits, not ${ipv6}`);
  if (!Number.isInteger(proxies) || proxies < 0) throw new RangeError(`proxies must be 0 or more, not ${proxies}`);
  return ({ ip, headers }) => {
    const forwarded = [headers?.["x-forwarded-for"] ?? ""].flat().join(",");
    if (proxies > 0 && forwarded !== "") {
      const found = networkOf(forwarded.split(",").at(-proxies) ?? "", ipv6);
      if (found) return found;
      warnOnce("X-Forwarded-For has no address of a client; the address of the proxy is limited in its place");
    }
    const found = networkOf(ip ?? "", ipv6);
    if (!found) warnOnce(`a client has no IP address (behind a Unix socket, for example); all such clients share the limit "${UNKNOWN}"`);
    return found ?? UNKNOWN;
  };
}

/** An address in brackets or without colons, each with or without a port, or a plain IPv6 address. */
const ADDRESS = /^(?:\[([^\]]+)\](?::\d+)?|([^:[\]]+)(?::\d+)?|([^[\]]*:[^[\]]*:[^[\]]*))$/;

function networkOf(text: string, ipv6: number): string | undefined {
  const [, inBrackets, plain, long] = ADDRESS.exec(text.trim()) ?? [];
  const [address = ""] = (inBrackets ?? plain ?? long ?? "").split("%");
  const family = isIP(address);
  if (family !== 6) return family === 4 ? address : undefined;
  const words = wordsOf(canonical(address));
  // A dual-stack socket shows an IPv4 address as ::ffff:192.0.2.1
  if (words.slice(0, 5).every((word) => word === 0) && words[5] === 0xffff) {
    return words.slice(6).flatMap((word) => [word >> 8, word & 255]).join(".");
  }
  const kept = words.map((word, at) => word & (0xffff << (16 - Math.min(16, Math.max(0, ipv6 - 16 * at)))) & 0xffff);
  return `${canonical(kept.map((word) => word.toString(16)).join(":"))}/${ipv6}`;
}

/** Returns an address in its canonical form (RFC 5952), as URLs contain it. */
const canonical = (address: string): string => new URL(`http://[${address}]`).hostname.slice(1, -1);

/** Returns the eight 16-bit words of a canonical IPv6 address. */
function wordsOf(address: string): number[] {
  const [head = "", tail] = address.split("::");
  const [before, after] = [head, tail ?? ""].map((part) => (part === "" ? [] : part.split(":").map((word) => parseInt(word, 16))));
  return [...before!, ...Array<number>(8 - before!.length - after!.length).fill(0), ...after!];
}

const warned = new Set<string>();

function warnOnce(text: string): void {
  if (warned.has(text)) return;
  warned.add(text);
  process.emitWarning(text, { type: "ZeitsetWarning" });
}
