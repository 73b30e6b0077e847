/** The three operations and their addresses: request in, answer out. */
import type { IncomingMessage } from 'node:http'
import { Fault, parse, type Answer } from './answer.ts'
import { newPet, petJson } from './pet.ts'
import { cursorAfter, parsePageQuery, parsePetId, readJsonBody } from './request.ts'
import type { PetStore } from './store.ts'

const petsPath = '/v1/pets'
const address = new RegExp(`^${petsPath}(?:/([^/?]+))?(?:\\?(.*))?$`)

/** Rejects with a Fault, or if the database fails, or if the client leaves in the middle of its body. */
export async function answerRequest(store: PetStore, request: IncomingMessage): Promise<Answer> {
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
