/** Calls of the admin API. The token is kept here, in memory, and nowhere else. */

/** Failure of an operation. */
export class Fault extends Error {
  /** @param {string} path @param {string} message @param {{ status?: number, code?: string, problems?: readonly string[] }} [details] */
  constructor(path, message, { status = 0, code = '', problems = [] } = {}) {
    super(message)
    /** Path of the request. */
    this.path = path
    /** 0: no answer has come. */
    this.status = status
    this.code = code
    this.problems = problems
  }
}

const READ_WITHIN_MS = 10_000
const CHANGE_WITHIN_MS = 60_000
/** Longest wait that a refused operation may ask for and get, without a word to the operator. */
const LONGEST_WAIT_MS = 2_000

/** @type {string | undefined} */
let token
/** @type {(refused: boolean) => Promise<string | undefined>} */
let askForToken = () => Promise.resolve(undefined)
/** One question for a token, which all calls that need one wait for. @type {Promise<string | undefined> | undefined} */
let asked

/** Set after the operator has cancelled: calls made by the page itself do not ask again. */
let isDeclined = false
export const askAgain = () => void (isDeclined = false)

/** @param {typeof askForToken} ask resolves to undefined after a cancel. refused: the previous token was not accepted. */
export const onTokenNeeded = (ask) => void (askForToken = ask)

/**
 * @param {string} path
 * @param {{ method?: string, body?: object, signal: AbortSignal }} how
 * @param {number} [repeats] how often it is asked again where the gateway says that it can answer in a moment
 * @returns {Promise<Response>}
 */
async function ask(path, how, repeats = 4) {
  const { method = 'GET', body, signal } = how
  const sent = token
  /** @type {Record<string, string>} */
  const headers = {}
  if (sent !== undefined) headers['authorization'] = `Bearer ${sent}`
  if (body !== undefined) headers['content-type'] = 'application/json'
  /** @type {RequestInit} */
  const init = { method, headers, signal, cache: 'no-store', credentials: 'omit' }
  if (body !== undefined) init.body = JSON.stringify(body)
  // The path is relative, as a proxy may show the listener below a path of its own.
  const response = await fetch(path.slice(1), init).catch((error) => {
    if (signal.aborted && signal.reason?.name !== 'TimeoutError') throw error
    const why = signal.aborted ? 'did not answer in time' : 'cannot be reached'
    throw new Fault(path, `The gateway ${why}.`)
  })
  if (response.ok) return response
  const waitMs = Number(response.headers.get('retry-after') ?? Infinity) * 1_000
  if (response.status === 429 && repeats > 0 && waitMs <= LONGEST_WAIT_MS) {
    await new Promise((resolve) => setTimeout(resolve, waitMs))
    return ask(path, how, repeats - 1)
  }
  const said = await response.json().catch(() => ({}))
  if (response.status === 401 && !isDeclined) {
    if (token === sent) token = await (asked ??= askForToken(sent !== undefined))
    asked = undefined
    isDeclined = token === undefined
    if (token !== undefined) return ask(path, how, repeats)
  }
  const missing = response.status === 404 && said.code === 'not_found'
  const message = missing ? 'This gateway has no such operation.' : said.message
  throw new Fault(path, message ?? `The gateway answered ${response.status}.`, {
    status: response.status,
    code: said.code,
    problems: said.problems ?? [],
  })
}

/**
 * JSON of an answer; `Answer` is by the shapes in src/insight/api.
 * @template Answer
 * @param {string} path
 * @param {{ method?: string, body?: object }} [how]
 * @returns {Promise<Answer>}
 */
export async function call(path, how = {}) {
  const withinMs = how.method === undefined ? READ_WITHIN_MS : CHANGE_WITHIN_MS
  const response = await ask(path, { ...how, signal: AbortSignal.timeout(withinMs) })
  return response.json()
}

/**
 * Reads server-sent events through fetch, as an EventSource sends no token. Ends with the stream, or throws.
 * @param {string} path
 * @param {(event: string, data: any) => void} onEvent
 * @param {AbortSignal} signal
 */
export async function stream(path, onEvent, signal) {
  const { body } = await ask(path, { signal })
  if (body === null) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const blocks = (text + value).split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const [, event = '', data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? []
      if (data !== undefined) onEvent(event, JSON.parse(data))
    }
  }
}
