/** Leaves of the schema: each takes the text as written, and returns the typed value or `fault; remedy`. Their meta says how YAML reads such text. */
import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { suggest } from './nearest.ts'

/** One value of the file: every scalar arrives as the text written. */
export type Leaf<T> = z.ZodType<T, string>

/** Inclusive bounds, in the unit of the value. */
interface Bounds {
  readonly min: number
  readonly max: number
}

/** More than any machine's cores; each worker costs some 80 MB. */
const MAX_WORKERS = 256

/** One message for a missing value, and one for a value of another kind. */
export const faultOr = (fault: string, missing = 'is missing; add it') => ({
  error: (issue: { readonly input?: unknown }) => (issue.input === undefined ? missing : fault),
})

export const notSingle = 'is a list or a group of keys; write a single value'

export const text = z.string(faultOr(notSingle))

/** YAML reads some texts as numbers or flags that are meant literally. */
const plain = { type: ['string', 'number', 'boolean'] }

/** A text of a shape, then read; both share one fault. */
export const shaped = <T>(shape: RegExp, fault: string, read: (text: string) => T | undefined) =>
  text.regex(shape, fault).transform((written, context): T => {
    const value = read(written)
    if (value === undefined) context.addIssue(fault)
    return value ?? z.NEVER
  })

const within = ({ min, max }: Bounds, fault: string) =>
  z.number({ error: fault }).min(min, fault).max(max, fault)

const number =
  (type: 'integer' | 'number', words: string, [shape, fault]: readonly [RegExp, string]) =>
  ({ min, max }: Bounds) =>
    text
      .regex(shape, fault)
      .transform(Number)
      .pipe(within({ min, max }, `is out of range; write a ${words} from ${min} to ${max}`))
      .meta({ type: [type, 'string'], minimum: min, maximum: max })

/** Digits only: 1e3, 0x10, 1_000 and .inf are other spellings of numbers and are refused. */
export const integer = number('integer', 'whole number', [
  /^-?(0|[1-9][0-9]*)$/,
  'is not a whole number; write digits only, such as 1000',
])

export const decimal = number('number', 'number', [
  /^-?(0|[1-9][0-9]*)(\.[0-9]+)?$/,
  'is not a number; write digits with an optional fraction, such as 1.5',
])

/** A share in percent; the value is a fraction of 1. */
export const share = shaped(
  /^(100|[1-9]?[0-9])%$/,
  'is not a share; write a whole number from 0 to 100 and "%", such as 10%',
  (written) => Number(written.slice(0, -1)) / 100,
)

/** Processes that serve requests: a number, or as many as this process may use cores. */
export const workers = shaped(
  /^(auto|[1-9][0-9]{0,2})$/,
  `is not a number of processes; write 1 to ${MAX_WORKERS}, or auto`,
  (written) => {
    if (written === 'auto') return Math.min(availableParallelism(), MAX_WORKERS)
    return Number(written) <= MAX_WORKERS ? Number(written) : undefined
  },
).meta({ type: ['integer', 'string'], minimum: 1, maximum: MAX_WORKERS })

/** Digits without a leading zero, then a unit: no sign, fraction, exponent or space. */
const quantity = (units: Readonly<Record<string, number>>) => {
  const shape = new RegExp(`^(0|[1-9][0-9]{0,15})(${Object.keys(units).join('|')})$`)
  return {
    shape,
    /** undefined for another shape, and for what does not fit a safe integer. */
    parse: (written: string): number | undefined => {
      const [, digits, unit = ''] = shape.exec(written) ?? []
      const amount = Number(digits) * (units[unit] ?? Number.NaN)
      return Number.isSafeInteger(amount) ? amount : undefined
    },
  }
}

/** Durations have one spelling, and their value is in ms. */
export const durations = quantity({
  y: 31_536_000_000,
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
})

/** Sizes have one spelling, and their value is in bytes. */
export const sizes = quantity({ GiB: 1_073_741_824, MiB: 1_048_576, KiB: 1024, B: 1 })

const measured =
  ({ shape, parse }: typeof durations, words: string, such: string) =>
  (min: string, max: string) => {
    const [least, most] = [parse(min), parse(max)]
    if (least === undefined || most === undefined) throw new Error(`not a ${words}: ${min}, ${max}`)
    const fault = `is not a ${words}; write a whole number and a unit, such as ${such}`
    return shaped(shape, fault, parse).pipe(
      within({ min: least, max: most }, `is out of range; write a ${words} from ${min} to ${max}`),
    )
  }

/** A duration within these bounds, which are written as it is. */
export const duration = measured(durations, 'duration', '250ms, 15s or 2h')

/** A size within these bounds, which are written as it is. */
export const size = measured(sizes, 'size', '512B, 16KiB or 1MiB')

export const choice = <const T extends string>(options: readonly T[]) =>
  z.enum(options, {
    error: ({ input }) => {
      const all = `write one of ${options.join(', ')}`
      if (typeof input !== 'string') return faultOr(notSingle).error({ input })
      return `is not a known choice; ${suggest(input, options)}${all}`
    },
  })

export const flag = z
  .enum(['true', 'false'], faultOr('is neither true nor false; write one of the two'))
  .transform((written) => written === 'true')
  .meta({ type: ['boolean', 'string'], enum: [true, false, 'true', 'false'] })

/** Whether every plain object seems to have the name: such names are refused, so that they cannot confuse a lookup table. */
export const isReservedName = (name: string): boolean => reservedNames.test(name)
const reservedNames = new RegExp(`^(?:${Object.getOwnPropertyNames(Object.prototype).join('|')})$`)

export const reservedNameFault = 'is a reserved name; choose another one'

const name = text.refine((written) => !isReservedName(written), {
  error: reservedNameFault,
  abort: true,
})

/** Names of plans and routes, which become metric labels and header values. */
export const label = name.regex(
  /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/,
  'is not a name; write a letter, then up to 63 letters, digits, "_", "." or "-"',
)

const idShape = (maxLength: number): RegExp =>
  new RegExp(`^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,${maxLength - 1}}$`)
export const clientIdShape = idShape(128)
export const keyIdShape = idShape(160)

const identifier = (shape: RegExp, maxLength: number) =>
  name.regex(
    shape,
    `is not an id; write up to ${maxLength} letters, digits or "_.:@+-", the first a letter or digit`,
  )

/** Ids of clients, kept as written: `012345` stays `012345`. */
export const clientId = identifier(clientIdShape, 128).meta(plain)

/** Ids of keys. Bans are kept under them, and under `jwt:` and the client's id for callers with tokens. */
export const keyId = identifier(keyIdShape, 160)
  .refine((written) => !written.startsWith('jwt:'), {
    error: 'starts with "jwt:", which names callers with tokens; choose another id',
  })
  .meta(plain)

export const storePrefix = name
  .regex(/^[A-Za-z0-9_.:-]{1,64}$/, 'is not a key prefix; write 1 to 64 letters, digits or "_.:-"')
  .meta(plain)

/** One line of visible text, such as an issuer, an audience or the name of a claim. */
export const line = name
  .regex(
    /^[^\s\p{Cc}](?:[^\p{Cc}]{0,510}[^\s\p{Cc}])?$/u,
    'is empty, too long or not one line; write up to 512 characters without line breaks',
  )
  .meta(plain)

/** Name of a header field: a token (RFC 9110 5.1). */
export const fieldName = name
  .regex(
    /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}$/,
    'is not the name of a header field; write one such as content-type',
  )
  .meta(plain)

/** A path of the file system; an empty one is undefined. SQLite gives `:` and `file:` another meaning, and a folder is refused. */
export const optionalFile = text
  .regex(
    /^(?:(?!:|file:)[^\s\p{Cc}](?:[^\p{Cc}]{0,510}[^\s\p{Cc}])?(?<!\/))?$/u,
    'is not a file name; write a path on one line, or "" for none',
  )
  .transform((written) => (written === '' ? undefined : written))
  .meta({ type: ['string', 'null'] })

/** SHA-256 in hex, either case; the value is lower case. by: what prints it. */
const digestBy = (by: string) =>
  text
    .regex(
      /^[0-9A-Fa-f]{64}$/,
      `is not a SHA-256 digest; write 64 hex digits, as \`${by}\` prints them`,
    )
    .transform((written) => written.toLowerCase())
    .meta({ type: ['string', 'number'] })

/** A webhook's secret is never shown in an error. */
export const webhookSecret = text.regex(
  /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/,
  'is not the secret of a webhook; write whsec_ and what `openssl rand -base64 32` prints',
)

export const keyDigest = digestBy('tollgate keys new')
export const tokenDigest = digestBy('printf %s TOKEN | sha256sum')

const timestamp =
  /^(\d{4}-\d{2}-\d{2})(?:T(\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,3})?)?(?:Z|[+-](\d{2}):(\d{2})))?$/

/** A date (its first moment in UTC) or an ISO 8601 timestamp with its zone; the value is Unix time in ms. */
export const dateMs = shaped(
  timestamp,
  'is not a date; write 2027-06-30, or 2027-06-30T12:00:00Z with a zone',
  (written) => {
    const [, day = '', ...clock] = timestamp.exec(written) ?? []
    const [hour = 0, minute = 0, second = 0, zoneHour = 0, zoneMinute = 0] = clock.map((digits) =>
      Number(digits ?? 0),
    )
    if (Math.max(hour, zoneHour) > 23 || Math.max(minute, second, zoneMinute) > 59) return undefined
    const dayMs = Date.parse(`${day}T00:00:00Z`)
    // Date.parse lets February 30th roll over into March.
    if (Number.isNaN(dayMs) || new Date(dayMs).toISOString().slice(0, 10) !== day) return undefined
    const value = Date.parse(written)
    return Number.isFinite(value) ? value : undefined
  },
)
