/** The catalogue service: an HTTP listener, and its three operations on the animals in one SQLite file. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { Fault, parse, type Answer } from './answer.ts'
import { newPet, petJson, type NewPet } from './pet.ts'
import { cursorAfter, parsePageQuery, parsePetId, readJsonBody } from './request.ts'
import { openPetStore, type PetStore } from './store.ts'

/** Longer than any gateway keeps an idle connection: the gateway closes first, and never writes to a connection that is closing. */
const keepAliveTimeoutMs = 65_000
/** Enough for the longest head that a gateway forwards, with the headers it adds; the default of node:http is 16 KiB. */
const maxHeaderBytes = 64 * 1024
const requestTimeoutMs = 120_000
/** How long close() waits for requests in flight before it cuts them off. */
const drainTimeoutMs = 10_000

export interface CatalogueOptions {
  /** Address to listen on. Anybody who can reach it is trusted: use loopback unless a firewall protects it. */
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** The SQLite file; created if absent, but its folder must exist. */
  readonly file: string
  /** Adds a few animals if there are none. Default false. */
  readonly seed?: boolean
  /** Receives one line per failure; clients get no details. */
  readonly log: (line: string) => void
}

/** Rejects with an Error that names a remedy if the file cannot be used, or with Node's if it cannot listen. */
export async function startCatalogue(options: CatalogueOptions) {
  const { host, port, file, seed = false, log } = options
  const store = openPetStore(file)
  let closing: Promise<void> | undefined
  const server = createServer(
    {
      keepAliveTimeout: keepAliveTimeoutMs,
      requestTimeout: requestTimeoutMs,
      maxHeaderSize: maxHeaderBytes,
    },
    (request, response) => {
      void answerOrFail(store, request, log).then((answer) => {
        send(response, answer, closing !== undefined)
      })
    },
  )
  try {
    if (seed && store.isEmpty()) for (const pet of firstPets) store.add(pet)
    await once(server.listen({ host, port }), 'listening')
  } catch (error) {
    store.close()
    throw error
  }
  const { address, port: realPort } = server.address() as AddressInfo
  return {
    address: { host: address, port: realPort },
    /** Accepts no more requests, finishes those in flight, then closes the database. May be called again. */
    close: () => (closing ??= drain(server).finally(() => store.close())),
  }
}

/** Never rejects: a failure is logged, and answered with a 500 without details. */
async function answerOrFail(
  store: PetStore,
  request: IncomingMessage,
  log: (line: string) => void,
): Promise<Answer> {
  try {
    return await answerRequest(store, request)
  } catch (error) {
    if (error instanceof Fault) return error.answer
    const clientLeft = request.destroyed && !request.complete
    if (!clientLeft) log(`catalogue: ${request.method} failed: ${inspect(error)}`)
    return new Fault('internal_error').answer
  }
}

function send(
  response: ServerResponse,
  { status, body, headers = {} }: Answer,
  isLast: boolean,
): void {
  // Without a listener, writing to a client that has just left would end the process.
  response.on('error', () => {})
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    ...headers,
    ...(isLast && { connection: 'close' }),
  })
  // node:http omits the body of an answer to HEAD.
  response.end(body)
}

/** Closes idle connections at once; resolves when the last connection is gone. */
function drain(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const cutOff = setTimeout(() => server.closeAllConnections(), drainTimeoutMs)
    server.close(() => {
      clearTimeout(cutOff)
      resolve()
    })
  })
}

const firstPets: readonly NewPet[] = [
  { name: 'Bella', categoryId: 1n, status: 'available' },
  { name: 'Mochi', categoryId: 2n, status: 'available' },
  { name: 'Rex', categoryId: 1n, status: 'pending' },
  { name: 'Pip', categoryId: 3n, status: 'sold' },
  { name: 'Nemo', categoryId: 4n },
]

const petsPath = '/v1/pets'
const address = new RegExp(`^${petsPath}(?:/([^/?]+))?(?:\\?(.*))?$`)

/** Rejects with a Fault, or if the database fails, or if the client leaves in the middle of its body. */
async function answerRequest(store: PetStore, request: IncomingMessage): Promise<Answer> {
  const { method = '', url = '' } = request
  const found = address.exec(url)
  if (found === null) throw new Fault('not_found')
  const [, petId, query = ''] = found
  const allow = petId === undefined ? 'GET, HEAD, POST' : 'GET, HEAD'
  if (!allow.split(', ').includes(method))
    throw new Fault('method_not_allowed', undefined, { allow })
  if (method === 'POST') return createPet(store, request)
  return petId === undefined ? listPets(store, query) : getPet(store, petId)
}

function listPets(store: PetStore, queryText: string): Answer {
  const query = parsePageQuery(queryText)
  const { pets, more } = store.list(query)
  const last = pets.at(-1)
  const filter = query.status === undefined ? '' : `&status=${query.status}`
  // The link is relative: only the client knows under which host it reached the service (RFC 8288, section 3.1).
  const next = `${petsPath}?limit=${query.limit}&cursor=${cursorAfter(last?.id ?? 0n)}${filter}`
  const headers = more ? { link: `<${next}>; rel="next"` } : {}
  return { status: 200, body: `[${pets.map(petJson).join(',')}]`, headers }
}

async function createPet(store: PetStore, request: IncomingMessage): Promise<Answer> {
  const pet = store.add(parse(newPet, await readJsonBody(request), 'invalid_body'))
  return { status: 201, body: petJson(pet), headers: { location: `${petsPath}/${pet.id}` } }
}

function getPet(store: PetStore, petId: string): Answer {
  const pet = store.get(parsePetId(petId))
  if (pet === undefined) throw new Fault('pet_not_found')
  return { status: 200, body: petJson(pet) }
}
