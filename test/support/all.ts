/** All that it yields. */
export async function all<Each>(each: AsyncIterable<Each>): Promise<Each[]> {
  const list: Each[] = []
  for await (const one of each) list.push(one)
  return list
}
