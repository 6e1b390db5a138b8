// The database of the tests: $WHERRY_TEST_URL, and the program $WHERRY_TEST_PROGRAM that makes queues in it.

import { execFileSync } from "node:child_process";
import { openSqlite } from "wherry";

export const url = process.env.WHERRY_TEST_URL;
export const isPostgres = url.startsWith("postgres");
let names = 0;

export function newQueue(...options) {
  const name = `jobs${process.pid}_${++names}`;
  wherry("create", "--kind", "queue", `${url}#${name}`, ...options);
  return name;
}

export function wherry(...words) {
  return execFileSync(process.env.WHERRY_TEST_PROGRAM, words, { stdio: ["ignore", "pipe", "pipe"] }).toString();
}

/** A connection with query(sql), inTransaction(work) and end(). */
export async function open() {
  if (isPostgres) {
    const { default: pg } = await import("pg");
    const pool = new pg.Pool({ connectionString: url });
    pool.on("error", () => {});
    return {
      connection: pool,
      query: async (sql) => (await pool.query(sql)).rows,
      inTransaction: async (work) => {
        const client = await pool.connect();
        await client.query("BEGIN");
        try {
          await work(client);
          await client.query("COMMIT");
        } catch (error) {
          await client.query("ROLLBACK");
          throw error;
        } finally {
          client.release();
        }
      },
      end: () => pool.end(),
    };
  }
  const db = await openSqlite(url.slice("sqlite:".length), { driver: process.env.WHERRY_TEST_DRIVER });
  return {
    connection: db,
    query: async (sql) => {
      const statement = db.prepare(sql);
      return /^SELECT/i.test(sql) ? statement.all() : statement.run();
    },
    inTransaction: async (work) => {
      db.exec("BEGIN IMMEDIATE");
      try {
        await work(db);
        db.exec("COMMIT");
      } catch (error) {
        db.exec("ROLLBACK");
        throw error;
      }
    },
    end: async () => db.close(),
  };
}
