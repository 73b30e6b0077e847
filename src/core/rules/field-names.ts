/** Recognises header field names, look-alikes included, without lower-casing or hashing every name of a request. */

/**
 * kinds: lower-case names, or families such as `x-client-*`, each with its kind; the result is undefined for others.
 * A name matches in any case, and with any mark in the place of a hyphen: CGI and its heirs (RFC 3875 4.1.18) hand
 * `X-Client-Id`, `X_Client_Id` and `X.Client.Id` to an application as one and the same variable.
 */
export function fieldNames<const Kind extends string>(
  kinds: Readonly<Record<string, Kind>>,
): (name: string) => Kind | undefined {
  const patterns = Object.entries(kinds).map(([key, kind]) => {
    // Names of a family may continue after its text.
    const family = key.endsWith('*')
    return { text: family ? key.slice(0, -1) : key, family, kind }
  })
  const byFirstLetter = Array.from({ length: 128 }, (_, letter) =>
    patterns.filter(({ text }) => text.charCodeAt(0) === letter),
  )
  return (name) => {
    const bucket = byFirstLetter[name.charCodeAt(0) | 0x20]
    if (bucket === undefined) return undefined
    for (const { text, family, kind } of bucket) {
      const fits = family ? name.length >= text.length : name.length === text.length
      if (fits && startsAlike(name, text)) return kind
    }
    return undefined
  }
}

const HYPHEN = 0x2d

function startsAlike(name: string, text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = name.charCodeAt(at)
    const expected = text.charCodeAt(at)
    // 0x20 is the bit between the two cases of a letter.
    if (expected === HYPHEN ? isAlphanumeric(code) : (code | 0x20) !== expected) return false
  }
  return true
}

function isAlphanumeric(code: number): boolean {
  const lower = code | 0x20
  return (lower >= 0x61 && lower <= 0x7a) || (code >= 0x30 && code <= 0x39)
}

/** The gateway's own entry in Via, on requests and answers alike (RFC 9110 7.6.3). */
export const VIA = '1.1 tollgate'

/** Matches all but what a field value may hold (RFC 9110 5.5): tab, space, visible ASCII, and bytes above ASCII. */
const unsafeInValue = /[^\t\x20-\x7e\x80-\xff]/

/** Whether Node, and any backend, takes the text as a field value. */
export function isFieldValue(text: string): boolean {
  return !unsafeInValue.test(text)
}

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** Whether the text is a token (RFC 9110 5.1), as every field name must be. */
export function isFieldName(text: string): boolean {
  return token.test(text)
}

export const NO_NAMES: ReadonlySet<string> = new Set()

/**
 * Returns the lower-case names in a Connection field, together with those of earlier Connection fields of the message.
 * It is a set, since a message may name a thousand fields and carry a hundred.
 */
export function connectionOptions(
  value: string,
  earlier: ReadonlySet<string> = NO_NAMES,
): ReadonlySet<string> {
  if (value === 'keep-alive' || value === 'close') return earlier
  const names = new Set(earlier)
  for (const part of value.split(',')) names.add(part.trim().toLowerCase())
  return names
}

/** Returns the value of a field, of several of that name joined by commas (RFC 9110 5.3). raw: flat. name: in lower case. */
export function fieldOf(raw: readonly string[], name: string): string | undefined {
  let found: string | undefined
  for (let at = 0; at < raw.length; at += 2) {
    if (raw[at]?.length !== name.length || raw[at]?.toLowerCase() !== name) continue
    found = found === undefined ? raw[at + 1] : `${found}, ${raw[at + 1]}`
  }
  return found
}
