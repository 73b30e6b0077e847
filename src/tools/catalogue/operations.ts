/** The three operations and their addresses: request in, answer out. */
import type { IncomingMessage } from 'node:http'
import { isFault, type Answer, type Fault } from './answer.ts'
import { readJsonBody } from './json-body.ts'
import { cursorAfter, parsePageQuery, parsePetId, type PageQuery } from './parameters.ts'
import { parseNewPet, petJson } from './pet.ts'
import type { PetStore } from './store.ts'

const petsPath = '/v1/pets'

/** Rejects if the database fails, or if the client leaves in the middle of its body. */
export async function answerRequest(
  store: PetStore,
  request: IncomingMessage,
): Promise<Answer | Fault> {
  const { method, url = '' } = request
  const queryAt = url.indexOf('?')
  const path = queryAt === -1 ? url : url.slice(0, queryAt)
  const isRead = method === 'GET' || method === 'HEAD'
  if (path === petsPath) {
    if (isRead) return listPets(store, queryAt === -1 ? '' : url.slice(queryAt + 1))
    return method === 'POST' ? createPet(store, request) : notAllowed('GET, HEAD, POST')
  }
  const petId = petIdIn(path)
  if (petId === undefined) return { fault: 'not_found' }
  return isRead ? getPet(store, petId) : notAllowed('GET, HEAD')
}

const notAllowed = (allow: string): Fault => ({ fault: 'method_not_allowed', headers: { allow } })

function petIdIn(path: string): string | undefined {
  return /^\/([^/]+)$/.exec(path.startsWith(petsPath) ? path.slice(petsPath.length) : '')?.[1]
}

function listPets(store: PetStore, queryText: string): Answer | Fault {
  const query = parsePageQuery(queryText)
  if (isFault(query)) return query
  const { pets, more } = store.list(query)
  const last = pets.at(-1)
  const headers = more && last ? { link: `<${nextPage(query, last.id)}>; rel="next"` } : {}
  return { status: 200, body: `[${pets.map(petJson).join(',')}]`, headers }
}

/** The link is relative, since only the client knows under which host it reached the service (RFC 8288, section 3.1). */
function nextPage({ limit, status }: PageQuery, lastId: bigint): string {
  const filter = status === undefined ? '' : `&status=${status}`
  return `${petsPath}?limit=${limit}&cursor=${cursorAfter(lastId)}${filter}`
}

async function createPet(store: PetStore, request: IncomingMessage): Promise<Answer | Fault> {
  const body = await readJsonBody(request)
  if (isFault(body)) return body
  const newPet = parseNewPet(body.json)
  if (isFault(newPet)) return newPet
  const pet = store.add(newPet)
  return { status: 201, body: petJson(pet), headers: { location: `${petsPath}/${pet.id}` } }
}

function getPet(store: PetStore, petId: string): Answer | Fault {
  const id = parsePetId(petId)
  if (isFault(id)) return id
  const pet = store.get(id)
  return pet ? { status: 200, body: petJson(pet) } : { fault: 'pet_not_found' }
}
